//! SillyProxy's arguments, which are Go flags and at most one word behind them.

use std::ffi::OsString;
use std::path::PathBuf;

use keystore::Password;
use wire::http::target::canonical_authority;

use super::routes_json::UpstreamOptions;
use crate::go_flags::{GoFlags, Rejected, boolean, number, problem};

/// What the arguments say.
#[derive(Default)]
pub(super) struct Arguments {
    /// `-keystore`.
    pub(super) keystore: PathBuf,
    /// `-keypass`.
    pub(super) keypass: Password,
    /// `-keypass-file`, ours.
    pub(super) keypass_file: Option<PathBuf>,
    /// `-minTLSver` or `-minTLSVer`.
    pub(super) min_tls: u64,
    /// `-bind`.
    pub(super) bind: String,
    /// `-routes`.
    pub(super) routes: PathBuf,
    /// `-hostname`.
    pub(super) hostname: String,
    /// `-pemCert`.
    pub(super) pem_cert: PathBuf,
    /// `-pemKey`.
    pub(super) pem_key: PathBuf,
    /// `-upstream-ca`, `-insecure-upstreams` and `-allow-host`, ours.
    pub(super) upstreams: UpstreamOptions,
    /// The first word is `KeyStore` or `keystore`.
    pub(super) keystore_mode: bool,
}

/// What `-h` prints.
pub(super) const USAGE: &str = "\
Usage: portunus as sillyproxy [FLAGS]             run the proxy
       portunus as sillyproxy [FLAGS] keystore    put a certificate and its key into the keystore
       portunus import sillyproxy [FLAGS]         print the same as a native configuration

SillyProxy's flags (one dash or two; `-flag value` or `-flag=value`):
  -keystore FILE     the Java keystore
  -keypass PASSWORD  its password; others on this machine can see it, prefer -keypass-file
  -minTLSver NUMBER  lowest TLS version: 2 is TLS 1.1, 3 is TLS 1.2, any other is TLS 1.0 (default 1)
  -bind ADDRESS      where to listen (default :443)
  -routes FILE       the routes, JSON
  -hostname NAME     with keystore: the name the certificate is for (default: the default certificate)
  -pemCert FILE      with keystore: the certificate chain, PEM
  -pemKey FILE       with keystore: its key, PEM

Flags of Portunus:
  -keypass-file FILE   a file that holds the keystore's password
  -upstream-ca FILE    PEM file of the roots that upstreams are verified with (default: the system's)
  -insecure-upstreams  do not verify upstreams, as SillyProxy did
  -allow-host HOST     an upstream that a parameter in host position may name; once for each
";

/// Reads the arguments after the program's name.
pub(super) fn read(words: &[OsString]) -> Result<Arguments, Rejected> {
    let mut arguments = Arguments { min_tls: 1, bind: ":443".to_string(), ..Arguments::default() };
    let mut flags = GoFlags::new(words);
    while let Some((name, given)) = flags.next()? {
        match name {
            "insecure-upstreams" => arguments.upstreams.insecure = boolean(name, given.unwrap_or("true"))?,
            _ if !is_known(name) => return problem(format!("flag provided but not defined: -{name}")),
            _ => set(&mut arguments, name, flags.value(name, given)?.to_owned())?,
        }
    }
    arguments.keystore_mode = flags.first_word().is_some_and(|word| word == "KeyStore" || word == "keystore");
    Ok(arguments)
}

/// Flags that take a value.
fn is_known(name: &str) -> bool {
    const FLAGS: [&str; 12] = [
        "keystore",
        "keypass",
        "keypass-file",
        "minTLSver",
        "minTLSVer",
        "bind",
        "routes",
        "hostname",
        "pemCert",
        "pemKey",
        "upstream-ca",
        "allow-host",
    ];
    FLAGS.contains(&name)
}

fn set(arguments: &mut Arguments, name: &str, value: String) -> Result<(), Rejected> {
    match name {
        "keystore" => arguments.keystore = value.into(),
        "keypass" => arguments.keypass = value.into(),
        "keypass-file" => arguments.keypass_file = Some(value.into()),
        "bind" => arguments.bind = value,
        "routes" => arguments.routes = value.into(),
        "hostname" => arguments.hostname = value,
        "pemCert" => arguments.pem_cert = value.into(),
        "pemKey" => arguments.pem_key = value.into(),
        "upstream-ca" => arguments.upstreams.ca = Some(value.into()),
        "allow-host" => {
            let mut canonical = Vec::new();
            if canonical_authority(value.as_bytes(), &mut canonical).is_err() {
                return problem(format!(
                    "invalid value \"{value}\" for flag -allow-host: expected `host` or `host:port`"
                ));
            }
            arguments.upstreams.allow.push(String::from_utf8_lossy(&canonical).into_owned());
        }
        _ => match number(&value) {
            Some(number) => arguments.min_tls = number,
            None => return problem(format!("invalid value \"{value}\" for flag -{name}: expected a number such as 3")),
        },
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn read_text(text: &str) -> Result<Arguments, Rejected> {
        read(&text.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn flags_follow_the_rules_of_go() {
        for (text, routes, min_tls, keystore_mode) in [
            ("", "", 1, false),
            ("-routes r.json", "r.json", 1, false),
            ("--routes=r.json -minTLSver=3", "r.json", 3, false),
            ("-minTLSVer 2 --routes r.json", "r.json", 2, false),
            ("-minTLSver 0x3", "", 3, false),
            ("-minTLSver 2 -minTLSver 0", "", 0, false),
            ("-routes r.json keystore", "r.json", 1, true),
            ("KeyStore", "", 1, true),
            // Flags after the first word are not read, and other words mean nothing.
            ("run -routes r.json", "", 1, false),
            ("keystore -routes r.json", "", 1, true),
            ("-- KeyStore", "", 1, true),
            ("-- -routes r.json", "", 1, false),
            ("- -routes r.json", "", 1, false),
            ("-routes -bind", "-bind", 1, false),
            ("-routes=a=b", "a=b", 1, false),
        ] {
            let arguments = read_text(text).unwrap_or_else(|rejected| panic!("{text}: {rejected:?}"));
            assert_eq!(arguments.routes, PathBuf::from(routes), "{text}");
            assert_eq!(arguments.min_tls, min_tls, "{text}");
            assert_eq!(arguments.keystore_mode, keystore_mode, "{text}");
        }
    }

    #[test]
    fn every_flag_has_its_place() {
        let text = "-keystore k -keypass p -keypass-file f -bind b -routes r -hostname h -pemCert c -pemKey e -upstream-ca u \
                    -insecure-upstreams -allow-host A.test -allow-host b.test:81";
        let arguments = read_text(text).unwrap_or_else(|rejected| panic!("{rejected:?}"));
        assert_eq!(arguments.keystore, PathBuf::from("k"));
        assert_eq!(arguments.keypass.as_str(), "p");
        assert_eq!(arguments.keypass_file, Some(PathBuf::from("f")));
        assert_eq!((arguments.bind.as_str(), arguments.hostname.as_str()), ("b", "h"));
        assert_eq!((arguments.pem_cert, arguments.pem_key), (PathBuf::from("c"), PathBuf::from("e")));
        assert_eq!(arguments.upstreams.ca, Some(PathBuf::from("u")));
        assert!(arguments.upstreams.insecure);
        assert_eq!(arguments.upstreams.allow, ["a.test", "b.test:81"]);
        assert!(!read_text("-insecure-upstreams=false").is_ok_and(|arguments| arguments.upstreams.insecure));
        assert_eq!(read_text("").map(|arguments| arguments.bind).ok().as_deref(), Some(":443"));
    }

    #[test]
    fn problems_are_reported() {
        for (text, expected) in [
            ("-nosuch", "flag provided but not defined: -nosuch"),
            ("-routes", "flag needs an argument: -routes"),
            ("---routes r", "bad flag syntax: ---routes"),
            ("-=r", "bad flag syntax: -=r"),
            ("-minTLSver three", "invalid value \"three\" for flag -minTLSver"),
            ("-minTLSVer -1", "invalid value \"-1\""),
            ("-minTLSver 0x", "invalid value"),
            ("-minTLSver +1", "invalid value"),
            ("-insecure-upstreams=maybe", "invalid boolean value"),
            ("-allow-host a/b", "invalid value \"a/b\""),
        ] {
            match read_text(text) {
                Err(Rejected::Problem(got)) => assert!(got.starts_with(expected), "{text}: {got}"),
                _ => panic!("{text} was read"),
            }
        }
        for text in ["-h", "--help", "-routes r -help"] {
            assert_eq!(read_text(text).err(), Some(Rejected::Help), "{text}");
        }
    }
}
