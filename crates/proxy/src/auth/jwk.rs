//! JSON Web Key Sets (RFC 7517): the public keys for signatures in them, read strictly.
//!
//! Keys of kinds and uses that are not ours are left out, as the RFC asks (§5); one that says it is ours and is broken makes the set unusable.

use config::Algorithm;
use tls::crypto::Curve;
use tls::crypto::verify::{MacKey, PublicKey};

use super::base64url;
use super::json::{Object, Value};
use super::keys::{Key, MAX_KEYS, Material};

/// Reads a key set.
///
/// # Errors
/// It is no key set, holds a broken key, or none that can be used.
pub(super) fn read_set(bytes: &[u8]) -> Result<Vec<Key>, String> {
    let set = Object::read(bytes)?;
    let list = set.list("keys").ok_or("not a key set: it has no list `keys`")?;
    if list.len() > MAX_KEYS {
        return Err(format!("more than {MAX_KEYS} keys"));
    }
    let mut keys = Vec::new();
    for (index, item) in list.iter().enumerate() {
        let Value::Object(item) = item else { return Err(format!("keys[{index}] is no object")) };
        keys.extend(read_key(item).map_err(|error| format!("keys[{index}]: {error}"))?);
    }
    if keys.is_empty() {
        return Err("no key in it is for signatures of a kind that is known here".to_owned());
    }
    Ok(keys)
}

/// One key; none if it is not for checking signatures, or of a kind that is not known here.
fn read_key(key: &Object) -> Result<Option<Key>, String> {
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
