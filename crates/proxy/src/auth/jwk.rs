//! JSON Web Key Sets (RFC 7517): the public keys for signatures in them, read strictly.
//!
//! Keys of kinds and uses that are not ours are left out, as the RFC asks (§5). One that says it is ours and is broken, or larger or smaller than is accepted, is
//! named apart: in a file it is a problem, while the provider of a set that is fetched must be able to change its other keys.

use config::Algorithm;
use tls::crypto::Curve;
use tls::crypto::verify::{MacKey, PublicKey};

use super::base64url;
use super::json::{Object, Value};
use super::keys::{Key, MAX_KEYS, Material};

/// A key set.
pub(super) struct Set {
    /// Those for signatures, of kinds that are known.
    pub(super) keys: Vec<Key>,
    /// What is wrong with others of them.
    pub(super) broken: Vec<String>,
}

/// Reads a key set.
///
/// # Errors
/// It is no key set, or holds no key that can be used.
pub(super) fn read_set(bytes: &[u8]) -> Result<Set, String> {
    let set = Object::read(bytes)?;
    let list = set.list("keys").ok_or("not a key set: it has no list `keys`")?;
    if list.len() > MAX_KEYS {
        return Err(format!("more than {MAX_KEYS} keys"));
    }
    let (mut keys, mut broken) = (Vec::new(), Vec::new());
    for (index, item) in list.iter().enumerate() {
        let Value::Object(item) = item else { return Err(format!("keys[{index}] is no object")) };
        match read_key(item) {
            Ok(key) => keys.extend(key),
            Err(problem) => broken.push(format!("keys[{index}]: {problem}")),
        }
    }
    match (keys.is_empty(), broken.first()) {
        (true, Some(problem)) => Err(problem.clone()),
        (true, None) => Err("no key in it is for signatures of a kind that is known here".to_owned()),
        (false, _) => Ok(Set { keys, broken }),
    }
}

/// One key; none if it is not for checking signatures, or of a kind that is not known here.
fn read_key(key: &Object) -> Result<Option<Key>, String> {
    // A word of another type would be read as no restriction.
    if let Some(name) =
        ["kty", "use", "alg", "kid", "crv"].iter().find(|name| key.get(name).is_some() && key.text(name).is_none())
    {
        return Err(format!("`{name}` is no text"));
    }
    if key.get("key_ops").is_some() && key.list("key_ops").is_none() {
        return Err("`key_ops` is no list".to_owned());
    }
    if key.text("use").is_some_and(|purpose| purpose != "sig") {
        return Ok(None);
    }
    if let Some(operations) = key.list("key_ops")
        && !operations.contains(&Value::Text("verify".to_owned()))
    {
        return Ok(None);
    }
    let algorithm = match key.text("alg") {
        Some(name) => match Algorithm::from_name(name) {
            Some(algorithm) => Some(algorithm),
            None => return Ok(None),
        },
        None => None,
    };
    let Some(material) = material(key)? else { return Ok(None) };
    Ok(Some(Key { id: key.text("kid").map(str::to_owned), algorithm, material }))
}

fn material(key: &Object) -> Result<Option<Material>, String> {
    let public = match (key.text("kty"), key.text("crv")) {
        (Some("RSA"), _) => PublicKey::from_rsa(&bytes(key, "n")?, &bytes(key, "e")?),
        (Some("EC"), Some("P-256")) => PublicKey::from_ec(Curve::P256, &bytes(key, "x")?, &bytes(key, "y")?),
        (Some("EC"), Some("P-384")) => PublicKey::from_ec(Curve::P384, &bytes(key, "x")?, &bytes(key, "y")?),
        (Some("EC"), Some("P-521")) => PublicKey::from_ec(Curve::P521, &bytes(key, "x")?, &bytes(key, "y")?),
        (Some("OKP"), Some("Ed25519")) => PublicKey::from_ed25519(&bytes(key, "x")?),
        (Some("oct"), _) => return Ok(Some(Material::Secret(MacKey::new(bytes(key, "k")?)))),
        (Some(_), _) => return Ok(None),
        (None, _) => return Err("it lacks `kty`".to_owned()),
    };
    public.map(|key| Some(Material::Public(key))).map_err(|error| error.to_string())
}

fn bytes(key: &Object, name: &str) -> Result<Vec<u8>, String> {
    let text = key.text(name).ok_or_else(|| format!("it lacks `{name}`"))?;
    base64url::decode(text.as_bytes()).ok_or_else(|| format!("`{name}` is no base64url"))
}
