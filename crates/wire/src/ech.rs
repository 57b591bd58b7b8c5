//! Configurations of Encrypted Client Hello (RFC 9849 §4): how they are framed, and what of them people ask about. Whether a key fits one is not known here.

/// The version of RFC 9849.
const VERSION: u16 = 0xfe0d;

/// Most configurations in one list.
pub const MAX_CONFIGS: usize = 16;

/// One configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EchConfig<'a> {
    /// All of it, with version and length.
    pub whole: &'a [u8],
    /// The number by which a ClientHello says that it was encrypted for this one.
    pub id: u8,
    /// The name that such a ClientHello shows to everybody.
    pub public_name: &'a str,
}

/// Why bytes are no list of configurations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EchError {
    /// Lengths do not fit, or there is nothing, or more than [`MAX_CONFIGS`].
    Malformed,
    /// A version that is not that of RFC 9849.
    Version(u16),
    /// The public name is no ASCII text.
    PublicName,
}

impl std::fmt::Display for EchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            EchError::Malformed => f.write_str("it is no ECHConfigList (RFC 9849)"),
            EchError::Version(version) => write!(f, "version 0x{version:04x} is not that of RFC 9849 (0xfe0d)"),
            EchError::PublicName => f.write_str("its public name is no ASCII text"),
        }
    }
}

impl std::error::Error for EchError {}

/// Takes an ECHConfigList apart.
///
/// # Errors
/// The first fault found.
pub fn configs(list: &[u8]) -> Result<Vec<EchConfig<'_>>, EchError> {
    let (mut rest, behind) = sized(list).ok_or(EchError::Malformed)?;
    if rest.is_empty() || !behind.is_empty() {
        return Err(EchError::Malformed);
    }
    let mut found = Vec::new();
    while !rest.is_empty() {
        let (config, behind) = config(rest)?;
        found.push(config);
        rest = behind;
        if found.len() > MAX_CONFIGS {
            return Err(EchError::Malformed);
        }
    }
    Ok(found)
}

/// The list of these configurations, each with version and length, as DNS and files have it; none if they are too long for one.
pub fn list(configs: &[&[u8]]) -> Option<Vec<u8>> {
    let length = u16::try_from(configs.iter().map(|config| config.len()).sum::<usize>()).ok()?;
    Some([&length.to_be_bytes()[..], &configs.concat()].concat())
}

/// The first configuration, and what follows it.
fn config(bytes: &[u8]) -> Result<(EchConfig<'_>, &[u8]), EchError> {
    let (version, framed) = number(bytes).ok_or(EchError::Malformed)?;
    let (contents, behind) = sized(framed).ok_or(EchError::Malformed)?;
    if version != VERSION {
        return Err(EchError::Version(version));
    }
    let whole = &bytes[..bytes.len() - behind.len()];
    let (id, public_name) = of_contents(contents).ok_or(EchError::Malformed)?;
    let public_name =
        std::str::from_utf8(public_name).ok().filter(|name| name.bytes().all(|byte| byte.is_ascii_graphic()));
    Ok((EchConfig { whole, id, public_name: public_name.ok_or(EchError::PublicName)? }, behind))
}

/// Number and public name out of ECHConfigContents.
fn of_contents(contents: &[u8]) -> Option<(u8, &[u8])> {
    let (id, rest) = contents.split_first()?;
    let (_kem, rest) = number(rest)?;
    let (key, rest) = sized(rest)?;
    let (suites, rest) = sized(rest)?;
    let (_longest_name, rest) = rest.split_first()?;
    let (length, rest) = rest.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(*length))?;
    let (_extensions, rest) = sized(rest)?;
    let is_whole =
        !key.is_empty() && !suites.is_empty() && suites.len().is_multiple_of(4) && !name.is_empty() && rest.is_empty();
    is_whole.then_some((*id, name))
}

fn number(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<2>()?;
    Some((u16::from_be_bytes(*number), rest))
}

/// What stands behind a length of two bytes, and what follows it.
fn sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = number(bytes)?;
    rest.split_at_checked(usize::from(length))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn one(version: u16, name: &[u8]) -> Vec<u8> {
        let key = [&[7, 0, 0x20, 0, 4, 1, 2, 3, 4, 0, 4, 0, 1, 0, 1, 64, name.len() as u8][..], name, &[0, 0]].concat();
        [&version.to_be_bytes()[..], &(key.len() as u16).to_be_bytes(), &key].concat()
    }

    #[test]
    fn lists_are_taken_apart_and_put_together() {
        let (first, second) = (one(VERSION, b"cover.example"), one(VERSION, b"b.example"));
        let whole = list(&[&first, &second]).unwrap();
        let found = configs(&whole).unwrap();
        assert_eq!(found[0], EchConfig { whole: &first, id: 7, public_name: "cover.example" });
        assert_eq!((found.len(), found[1].public_name), (2, "b.example"));
        for cut in 0..whole.len() {
            assert_eq!(configs(&whole[..cut]), Err(EchError::Malformed), "{cut}");
        }
        assert_eq!(configs(&[&whole[..], &[0]].concat()), Err(EchError::Malformed));
        assert_eq!(configs(&[0, 0]), Err(EchError::Malformed));
        assert_eq!(configs(&list(&[&one(0xfe0a, b"a")]).unwrap()), Err(EchError::Version(0xfe0a)));
        assert_eq!(configs(&list(&[&one(VERSION, b"\xff")]).unwrap()), Err(EchError::PublicName));
        assert_eq!(configs(&list(&[&one(VERSION, b"")]).unwrap()), Err(EchError::Malformed));
        let many = vec![first.as_slice(); MAX_CONFIGS + 1];
        assert_eq!(configs(&list(&many).unwrap()), Err(EchError::Malformed));
    }
}
