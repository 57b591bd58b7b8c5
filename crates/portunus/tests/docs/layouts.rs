//! The layouts of certificates that docs/certificates.md names are served as they are: a chain of three, laid out as each tool does it, and clients
//! that know the root alone.

use super::commands::Place;
use super::markdown::{Page, pages};

/// Makes a root, an issuer, and `www.example.com` under it: root.pem, issuer.pem, leaf.pem, leaf.key.
const CHAIN: &str = r#"
openssl() { command openssl "$@" 2>> .openssl; }
key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1.key"; }
key root; key issuer; key leaf
openssl req -x509 -new -key root.key -subj '/CN=Root' -days 30 -out root.pem
openssl req -new -key issuer.key -subj '/CN=Issuer' -out issuer.csr
printf 'basicConstraints=critical,CA:true\nkeyUsage=keyCertSign\n' > issuer.ext
openssl x509 -req -in issuer.csr -CA root.pem -CAkey root.key -CAcreateserial -days 30 -extfile issuer.ext -out issuer.pem
openssl req -new -key leaf.key -subj '/CN=www.example.com' -out leaf.csr
printf 'subjectAltName=DNS:www.example.com\n' > leaf.ext
openssl x509 -req -in leaf.csr -CA issuer.pem -CAkey issuer.key -CAcreateserial -days 30 -extfile leaf.ext -out leaf.pem
cat leaf.pem issuer.pem > fullchain.pem
"#;

/// Serves the folder `keys`, and verifies as a client does that knows the root alone.
const SERVE: &str = r#"
cat > portunus.yaml <<'END'
listeners: [{ name: https, bind: ":8443", tls: { keystore: main } }]
keystores: { main: { folder: keys, default: www.example.com } }
routes: [{ respond: { status: 200, body: served } }]
END
portunus keystore check --store keys
portunus check portunus.yaml
portunus run portunus.yaml >> .background 2>&1 &
curl -sS --cacert root.pem --resolve www.example.com:8443:127.0.0.1 https://www.example.com:8443/ > body
grep -q served body
"#;

fn serves(layout: &str) {
    let said = Place::new().run(&format!("{CHAIN}{layout}{SERVE}"));
    let said = said.unwrap_or_else(|said| panic!("{layout}\n{said}"));
    // A store does not know the `default` of the configuration; and a root that nobody needs is worth a line.
    let is_expected = |line: &str| line.contains("has no `default`") || line.contains("is not used; to send it");
    let mut warnings = said.lines().filter(|line| line.to_lowercase().contains("warn") && !is_expected(line));
    assert_eq!(warnings.next(), None, "{layout}\n{said}");
}

#[test]
fn what_certbot_writes_is_served_as_it_is() {
    serves(
        r"
mkdir -p archive/www.example.com keys/www.example.com
for name in cert chain fullchain privkey; do ln -s ../../archive/www.example.com/${name}1.pem keys/www.example.com/$name.pem; done
cp leaf.pem archive/www.example.com/cert1.pem
cp issuer.pem archive/www.example.com/chain1.pem
cp fullchain.pem archive/www.example.com/fullchain1.pem
cp leaf.key archive/www.example.com/privkey1.pem
echo 'This directory contains your keys and certificates.' > keys/README
cp keys/README keys/www.example.com/README
",
    );
}

#[test]
fn what_acme_sh_writes_is_served_as_it_is() {
    serves(
        r"
mkdir -p keys/www.example.com_ecc
cd keys/www.example.com_ecc
cp ../../leaf.pem www.example.com.cer
cp ../../leaf.key www.example.com.key
cp ../../issuer.pem ca.cer
cp ../../fullchain.pem fullchain.cer
cp ../../leaf.csr www.example.com.csr
echo 'Le_Domain=www.example.com' > www.example.com.conf
cd ../..
",
    );
}

#[test]
fn a_mounted_kubernetes_secret_is_served_as_it_is() {
    serves(
        r"
mkdir -p keys/www/..2026_11_22
cp fullchain.pem keys/www/..2026_11_22/tls.crt
cp leaf.key keys/www/..2026_11_22/tls.key
cp root.pem keys/www/..2026_11_22/ca.crt
ln -s ..2026_11_22 keys/www/..data
for name in tls.crt tls.key ca.crt; do ln -s ..data/$name keys/www/$name; done
",
    );
}

#[test]
fn the_deploy_hook_of_the_page_copies_what_is_served() {
    let page: Page = pages().into_iter().find(|page| page.path == "docs/certificates.md").unwrap();
    let block = page.blocks().into_iter().find(|block| block.text.starts_with("#!/bin/sh")).expect("the deploy hook");
    let hook = block.text.replace("/etc/portunus/keys", "keys").replace(" -g portunus", "");
    serves(&format!(
        "
mkdir lineage keys
cp fullchain.pem lineage/fullchain.pem
cp leaf.key lineage/privkey.pem
cat > hook <<'END'
{hook}END
RENEWED_LINEAGE=$PWD/lineage sh hook
"
    ));
}
