//! Keys, by the table's key spec.

use warpkeep::KeySpec;

use super::coding::number_from_text;
use super::{Shown, bytes_from_text, text_of_bytes};

/// A key as a file has it, before the table's key spec is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RawKey {
    Number(u64),
    Text(String),
}

impl RawKey {
    /// Whether it can be a key of `u64` keys.
    pub(crate) fn is_number(&self) -> bool {
        match self {
            RawKey::Number(_) => true,
            RawKey::Text(text) => number_from_text(text).is_ok(),
        }
    }

    /// The key's bytes.
    pub(crate) fn bytes(&self, spec: KeySpec) -> Result<Vec<u8>, String> {
        match (spec, self) {
            (KeySpec::U64, RawKey::Number(number)) => Ok(number.to_le_bytes().to_vec()),
            (_, RawKey::Number(number)) => {
                Err(format!("the key {number} is a number, and the table has {spec} keys; write it as text"))
            }
            (_, RawKey::Text(text)) => key_from_text(spec, text),
        }
    }
}

/// The bytes of a key: an integer where keys are integers, otherwise text.
pub(crate) fn key_from_text(spec: KeySpec, text: &str) -> Result<Vec<u8>, String> {
    let key = match spec {
        KeySpec::U64 => number_from_text(text)?.to_le_bytes().to_vec(),
        _ => bytes_from_text(text)?,
    };
    spec.check(&key).map_err(|error| error.to_string())?;
    Ok(key)
}

/// The bytes that keys begin with.
pub(crate) fn key_prefix(spec: KeySpec, text: &str) -> Result<Vec<u8>, String> {
    match spec {
        KeySpec::U64 => Err("u64 keys have no prefix; leave --prefix out".into()),
        _ => bytes_from_text(text),
    }
}

/// A key; without control characters on a `line` of its own.
pub(crate) fn shown_key(spec: KeySpec, key: &[u8], line: bool) -> Shown {
    match (spec, key.try_into()) {
        (KeySpec::U64, Ok(bytes)) => Shown::Number(u64::from_le_bytes(bytes)),
        _ => Shown::Text(text_of_bytes(key, line)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_follow_their_spec() {
        let text = KeySpec::variable(10).expect("a spec");
        let fixed = KeySpec::fixed(2).expect("a spec");
        assert_eq!(key_from_text(KeySpec::U64, "0xff"), Ok(255_u64.to_le_bytes().to_vec()));
        assert!(key_from_text(KeySpec::U64, "ff").is_err());
        assert_eq!(key_from_text(text, "0xff"), Ok(b"0xff".to_vec()));
        assert_eq!(key_from_text(fixed, "hex:0001"), Ok(vec![0, 1]));
        assert!(key_from_text(fixed, "abc").is_err_and(|error| error.contains("fixed:2")));
        assert!(key_from_text(text, "longer than ten").is_err());
        assert_eq!(shown_key(KeySpec::U64, &7_u64.to_le_bytes(), true).to_string(), "7");
        assert_eq!(shown_key(fixed, &[0, 1], true).to_string(), "hex:0001");
        assert!(RawKey::Number(1).bytes(text).is_err());
        assert!(RawKey::Text("12".into()).is_number() && !RawKey::Text("a".into()).is_number());
    }
}
