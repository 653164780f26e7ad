//! Specs as text, as bytes and as JSON, and the inputs they refuse.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use warpkeep_core::{CoreError, KeySpec, ValueSpec};

fn key_specs() -> impl Strategy<Value = KeySpec> {
    prop_oneof![
        Just(KeySpec::U64),
        (1..=KeySpec::MAX_FIXED).prop_map(|len| KeySpec::fixed(len).expect("in range")),
        (1..=KeySpec::MAX_VARIABLE).prop_map(|max| KeySpec::variable(max).expect("in range")),
    ]
}

fn value_specs() -> impl Strategy<Value = ValueSpec> {
    prop_oneof![
        (1..=ValueSpec::MAX).prop_map(|len| ValueSpec::fixed(len).expect("in range")),
        (1..=ValueSpec::MAX).prop_map(|max| ValueSpec::variable(max).expect("in range")),
    ]
}

#[test]
fn bytes_are_pinned() {
    let bytes = |key: &str| key.parse::<KeySpec>().expect("a key spec").to_bytes();
    assert_eq!(bytes("u64"), [1, 0, 0, 0, 8, 0, 0, 0]);
    assert_eq!(bytes("fixed:32"), [2, 0, 0, 0, 32, 0, 0, 0]);
    assert_eq!(bytes("var:65535"), [3, 0, 0, 0, 255, 255, 0, 0]);
    let bytes = |value: &str| value.parse::<ValueSpec>().expect("a value spec").to_bytes();
    assert_eq!(bytes("fixed:128"), [17, 0, 0, 0, 128, 0, 0, 0]);
    assert_eq!(bytes("var"), [18, 0, 0, 0, 0, 0, 16, 0]);
}

#[test]
fn short_forms() {
    assert_eq!("var".parse(), KeySpec::variable(1024));
    assert_eq!("var".parse(), ValueSpec::variable(1024 * 1024));
    assert_eq!("u64".parse(), Ok(ValueSpec::U64));
    assert_eq!("f32x64".parse(), ValueSpec::fixed(256));
}

#[test]
fn what_is_no_spec_is_refused_with_a_remedy() {
    for text in
        ["", "U64", "u64:8", "fixed", "fixed:", "fixed:-1", "fixed:+1", "fixed: 1", "var:1k", "f32x64", ":"]
    {
        let refused = text.parse::<KeySpec>().expect_err(text);
        assert!(matches!(refused, CoreError::SpecSyntax { .. }), "{text}: {refused}");
        assert!(refused.to_string().contains("write u64, fixed:<bytes>"), "{refused}");
    }
    for text in ["", "u64:8", "fixed", "f32x", "f32x-1", "f32x1:2", "fixed:99999999999", "f64x2"] {
        let refused = text.parse::<ValueSpec>().expect_err(text);
        assert!(matches!(refused, CoreError::SpecSyntax { .. }), "{text}: {refused}");
    }
    for text in ["fixed:0", "fixed:129", "var:0", "var:65536"] {
        let refused = text.parse::<KeySpec>().expect_err(text);
        assert!(matches!(refused, CoreError::SpecLimit { .. }), "{text}: {refused}");
        assert!(refused.to_string().contains("choose 1 to "), "{refused}");
    }
    for text in ["fixed:0", "fixed:1048577", "var:0", "var:1048577", "f32x0", "f32x262145", "f32x1073741824"]
    {
        let refused = text.parse::<ValueSpec>().expect_err(text);
        assert!(matches!(refused, CoreError::SpecLimit { .. }), "{text}: {refused}");
    }
}

#[test]
fn lengths_at_the_limits() {
    let key = KeySpec::fixed(128).expect("in range");
    assert!(key.check(&[0; 128]).is_ok());
    assert_eq!(key.check(&[0; 129]), Err(CoreError::KeyLength { len: 129, spec: key }));
    assert_eq!(key.check(&[0; 127]), Err(CoreError::KeyLength { len: 127, spec: key }));
    let key = KeySpec::variable(KeySpec::MAX_VARIABLE).expect("in range");
    assert!(key.check(&[]).is_ok() && key.check(&[0; 65_535]).is_ok());
    assert!(key.check(&[0; 65_536]).is_err());
    let value = ValueSpec::variable(ValueSpec::MAX).expect("in range");
    assert!(value.check(&[]).is_ok() && value.check(&vec![0; 1 << 20]).is_ok());
    assert_eq!(
        value.check(&vec![0; (1 << 20) + 1]),
        Err(CoreError::ValueLength { len: (1 << 20) + 1, spec: value })
    );
}

#[test]
fn json_is_checked_like_text() {
    assert_eq!(serde_json::to_string(&KeySpec::U64).expect("serializes"), "\"u64\"");
    assert!(serde_json::from_str::<KeySpec>("\"fixed:129\"").is_err());
    assert!(serde_json::from_str::<ValueSpec>("{\"Fixed\":{\"len\":0}}").is_err());
}

proptest! {
    // The same cases in every run, and no files left behind.
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(0x5EED), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn key_specs_round_trip(spec in key_specs()) {
        prop_assert_eq!(spec.to_string().parse(), Ok(spec));
        prop_assert_eq!(KeySpec::from_bytes(spec.to_bytes()), Ok(spec));
        let json = serde_json::to_string(&spec).expect("serializes");
        prop_assert_eq!(serde_json::from_str::<KeySpec>(&json).expect("what was written"), spec);
        prop_assert!(ValueSpec::from_bytes(spec.to_bytes()).is_err());
    }

    #[test]
    fn value_specs_round_trip(spec in value_specs()) {
        prop_assert_eq!(spec.to_string().parse(), Ok(spec));
        prop_assert_eq!(ValueSpec::from_bytes(spec.to_bytes()), Ok(spec));
        let json = serde_json::to_string(&spec).expect("serializes");
        prop_assert_eq!(serde_json::from_str::<ValueSpec>(&json).expect("what was written"), spec);
        prop_assert!(KeySpec::from_bytes(spec.to_bytes()).is_err());
    }

    /// Damaged bytes are refused, or are the one encoding of another valid spec.
    #[test]
    fn damaged_bytes_are_refused_or_mean_exactly_themselves(
        spec in key_specs(), at in 0usize..8, byte: u8, random: [u8; 8],
    ) {
        let mut damaged = spec.to_bytes();
        damaged[at] = byte;
        for bytes in [damaged, random] {
            match KeySpec::from_bytes(bytes) {
                Ok(spec) => prop_assert_eq!(spec.to_bytes(), bytes),
                Err(e) => prop_assert_eq!(e, CoreError::SpecEncoding { what: "key", bytes }),
            }
            match ValueSpec::from_bytes(bytes) {
                Ok(spec) => prop_assert_eq!(spec.to_bytes(), bytes),
                Err(e) => prop_assert_eq!(e, CoreError::SpecEncoding { what: "value", bytes }),
            }
        }
    }

    #[test]
    fn any_text_is_a_spec_or_an_error(text in "(u64|fixed|var|f32x)?:?[0-9]{0,12}.{0,3}") {
        if let Ok(spec) = text.parse::<KeySpec>() {
            prop_assert_eq!(spec.to_string().parse(), Ok(spec));
        }
        if let Ok(spec) = text.parse::<ValueSpec>() {
            prop_assert_eq!(spec.to_string().parse(), Ok(spec));
        }
    }
}
