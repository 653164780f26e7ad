//! The names of devices, and what is said about those that are not here.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use warpkeep_device::{Device, DeviceChoice, DeviceError, devices};

#[test]
fn choices_are_read_as_they_are_written() {
    for choice in [DeviceChoice::Cpu, DeviceChoice::Sim, DeviceChoice::Cuda(0), DeviceChoice::Cuda(17)] {
        assert_eq!(choice.to_string().parse::<DeviceChoice>().unwrap(), choice);
    }
    assert_eq!("cuda".parse::<DeviceChoice>().unwrap(), DeviceChoice::Cuda(0));
    assert_eq!(" CUDA:3 ".parse::<DeviceChoice>().unwrap(), DeviceChoice::Cuda(3));
    assert_eq!(format!("{:<6}|", DeviceChoice::Cuda(1)), "cuda:1|");
    assert_eq!(format!("{:<6}|", DeviceChoice::Sim), "sim   |");
}

#[test]
fn a_typo_is_answered_with_what_is_here() {
    for wrong in
        ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:+1", "cuda:99999999999", "cuda0", "simulator"]
    {
        let error = wrong.parse::<DeviceChoice>().unwrap_err();
        let DeviceError::UnknownChoice { given, available } = &error else { panic!("{error}") };
        assert_eq!(given, wrong);
        for device in devices() {
            assert!(available.contains(&device.choice.to_string()), "{error}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(11), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_is_written_brings_it_down(text in ".{0,12}", ordinal: u32) {
        if let Ok(choice) = text.parse::<DeviceChoice>() {
            prop_assert_eq!(choice.to_string().parse::<DeviceChoice>().unwrap(), choice);
        }
        let choice = DeviceChoice::Cuda(ordinal);
        prop_assert_eq!(choice.to_string().parse::<DeviceChoice>().unwrap(), choice);
    }
}

#[test]
fn the_cpu_is_no_device() {
    let error = Device::open(DeviceChoice::Cpu).unwrap_err();
    assert!(matches!(error, DeviceError::CpuIsNoDevice));
    assert!(error.to_string().contains("where a table is opened"));
}

#[test]
fn what_is_listed_as_usable_opens_and_the_rest_says_why_not() {
    let here = devices();
    assert_eq!(here[0].choice, DeviceChoice::Cpu);
    assert_eq!(here[1].choice, DeviceChoice::Sim);
    assert_eq!(here[2].choice, DeviceChoice::Cuda(0));
    for device in here.iter().skip(1) {
        match (&device.unavailable, Device::open(device.choice)) {
            (None, opened) => {
                let opened = opened.unwrap();
                assert_eq!(opened.choice(), device.choice);
                assert_eq!(opened.info().abilities, device.abilities);
                assert!(device.abilities.threads_per_block >= 1024);
            }
            (Some(why), Err(error)) => {
                assert!(error.to_string().contains(why.as_str()), "{error} does not say {why}");
                assert!(why.contains("use cpu"), "{why} does not say what to do");
                assert!(device.to_string().contains(why.as_str()));
            }
            (Some(why), Ok(_)) => panic!("{} opened, and was said not to: {why}", device.choice),
        }
    }
}

#[test]
fn a_gpu_that_is_not_there_is_an_error() {
    let error = Device::open(DeviceChoice::Cuda(4_000_000_000)).unwrap_err();
    assert!(matches!(error, DeviceError::NoCuda { .. }), "{error}");
    assert!(error.to_string().starts_with("cuda:4000000000 cannot be used: "), "{error}");
    assert!(!error.is_lost());
}
