//! The exact results of the hash functions. Stored tables depend on it: if one of these fails, the function is wrong,
//! not the vector. They were computed with a separate implementation in another language, written from the
//! definition in the documentation.

use warpkeep_core::{Seed, hash_bytes, hash_u64, mix64, reduce, second_hash, unmix64};

/// Seed, key, hash.
const MIX: &[(u64, u64, u64)] = &[
    (0x0000_0000_0000_0000, 0x0000_0000_0000_0000, 0xF121_63E8_4BA9_2E90),
    (0x0000_0000_0000_0000, 0x0000_0000_0000_0001, 0x5D88_563E_4F2E_AB1C),
    (0x0000_0000_0000_0000, 0x8000_0000_0000_0000, 0x551B_74D1_9BBF_F33A),
    (0x0000_0000_0000_0000, 0xFEDC_BA98_7654_3210, 0x0FC8_4C23_AB7B_2B1D),
    (0x0000_0000_0000_0000, 0xFFFF_FFFF_FFFF_FFFF, 0x2566_885D_2000_C147),
    (0x0000_0000_0000_0001, 0x0000_0000_0000_0000, 0x8647_E2D7_544C_E7F4),
    (0x0000_0000_0000_0001, 0x0000_0000_0000_0001, 0x44D4_ABD0_E022_55F2),
    (0x0000_0000_0000_0001, 0x8000_0000_0000_0000, 0x645D_7FE7_653A_818F),
    (0x0000_0000_0000_0001, 0xFEDC_BA98_7654_3210, 0xE269_9B7D_6EF1_2D30),
    (0x0000_0000_0000_0001, 0xFFFF_FFFF_FFFF_FFFF, 0x84AC_F6DF_30D7_E8C5),
    (0x0123_4567_89AB_CDEF, 0x0000_0000_0000_0000, 0x854B_72DE_6715_536E),
    (0x0123_4567_89AB_CDEF, 0x0000_0000_0000_0001, 0x7776_2E55_9D66_9A60),
    (0x0123_4567_89AB_CDEF, 0x8000_0000_0000_0000, 0xE416_B5C3_99F3_E8A9),
    (0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210, 0x63AD_C3B9_7B28_EC65),
    (0x0123_4567_89AB_CDEF, 0xFFFF_FFFF_FFFF_FFFF, 0x46A4_2683_EA71_C0E4),
    (0xFFFF_FFFF_FFFF_FFFF, 0x0000_0000_0000_0000, 0xE329_E0C1_CD0D_79B9),
    (0xFFFF_FFFF_FFFF_FFFF, 0x0000_0000_0000_0001, 0x9020_4401_7A26_FEF6),
    (0xFFFF_FFFF_FFFF_FFFF, 0x8000_0000_0000_0000, 0x31F9_E90B_38A5_15B2),
    (0xFFFF_FFFF_FFFF_FFFF, 0xFEDC_BA98_7654_3210, 0x97AC_306A_4756_98AE),
    (0xFFFF_FFFF_FFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF, 0xA1B3_9AC1_9E0E_C3A2),
];

/// Seed, length, hash of that many bytes of `1, 8, 15, 22, ...` modulo 256.
const BYTES: &[(u64, usize, u64)] = &[
    (0x0000_0000_0000_0001, 0, 0x9B30_E740_9BB4_E06F),
    (0x0000_0000_0000_0001, 1, 0x482C_3557_FB5E_E051),
    (0x0000_0000_0000_0001, 2, 0x6AFB_E642_05DE_C4A7),
    (0x0000_0000_0000_0001, 3, 0xDC53_2E48_6EF1_25EC),
    (0x0000_0000_0000_0001, 4, 0x161F_AD10_0535_231B),
    (0x0000_0000_0000_0001, 7, 0x0ABC_00B4_F5E2_1809),
    (0x0000_0000_0000_0001, 8, 0xD9A6_384A_C9BF_EC1B),
    (0x0000_0000_0000_0001, 9, 0x1473_4BAA_BE16_72F3),
    (0x0000_0000_0000_0001, 15, 0x4958_2DEF_F8DC_29E2),
    (0x0000_0000_0000_0001, 16, 0x9187_3F6B_BB70_FBD6),
    (0x0000_0000_0000_0001, 17, 0xE8D3_7F21_F4BF_117F),
    (0x0000_0000_0000_0001, 24, 0xFB6D_C0CA_66AE_CC2A),
    (0x0000_0000_0000_0001, 31, 0x8381_002C_A934_21FF),
    (0x0000_0000_0000_0001, 32, 0xE936_3CF1_30C6_9B26),
    (0x0000_0000_0000_0001, 33, 0xF0BA_984A_4E16_CE19),
    (0x0000_0000_0000_0001, 64, 0xBDEC_2D58_DF05_CE9E),
    (0x0000_0000_0000_0001, 100, 0x23B8_1B48_0653_01E0),
    (0x0000_0000_0000_0001, 128, 0x5DBA_D723_4770_80E9),
    (0x0000_0000_0000_0001, 250, 0xF88F_33A5_17D1_51BE),
    (0x0000_0000_0000_0001, 1024, 0xED84_706F_8EF1_1151),
    (0x0123_4567_89AB_CDEF, 0, 0xB76C_9D39_38F3_949F),
    (0x0123_4567_89AB_CDEF, 1, 0xA6FE_FE40_FCA3_BAC7),
    (0x0123_4567_89AB_CDEF, 2, 0x0CED_FE57_83CD_18C1),
    (0x0123_4567_89AB_CDEF, 3, 0x001F_1621_6DA9_116D),
    (0x0123_4567_89AB_CDEF, 4, 0x89A4_5FB3_D8FC_3F15),
    (0x0123_4567_89AB_CDEF, 7, 0x918D_F9CC_8BE0_C8BD),
    (0x0123_4567_89AB_CDEF, 8, 0xAAEA_ED64_88E5_0746),
    (0x0123_4567_89AB_CDEF, 9, 0xE7F7_80AC_21D5_048F),
    (0x0123_4567_89AB_CDEF, 15, 0x19BD_173F_D6E4_02E1),
    (0x0123_4567_89AB_CDEF, 16, 0xAD58_42B5_CE8E_A426),
    (0x0123_4567_89AB_CDEF, 17, 0xFE05_16A3_A864_260C),
    (0x0123_4567_89AB_CDEF, 24, 0x3980_1F3C_CA2B_1D6C),
    (0x0123_4567_89AB_CDEF, 31, 0xD350_6825_9BAB_30E2),
    (0x0123_4567_89AB_CDEF, 32, 0x97DC_4529_321B_AC3F),
    (0x0123_4567_89AB_CDEF, 33, 0x15A7_0721_3FEE_A3DB),
    (0x0123_4567_89AB_CDEF, 64, 0xC52A_9B19_CDEE_765A),
    (0x0123_4567_89AB_CDEF, 100, 0x9517_B1FD_56EF_60FA),
    (0x0123_4567_89AB_CDEF, 128, 0x9EBF_CC5C_525F_4E8E),
    (0x0123_4567_89AB_CDEF, 250, 0xDC34_7CE0_97C4_5D63),
    (0x0123_4567_89AB_CDEF, 1024, 0x418A_AAB5_7485_2DC1),
];

/// First hash, second hash.
const SECOND: &[(u64, u64)] = &[
    (0x0000_0000_0000_0000, 0x0000_0000_0000_0000),
    (0x0000_0000_0000_0001, 0x5645_C7F1_2C98_982D),
    (0x0123_4567_89AB_CDEF, 0x6542_D1B9_8632_2D51),
    (0xFFFF_FFFF_FFFF_FFFF, 0x7316_F2A6_786F_B7CE),
];

/// Hash, range, result.
const REDUCE: &[(u64, u64, u64)] = &[
    (0x0000_0000_0000_0000, 10, 0),
    (0xFFFF_FFFF_FFFF_FFFF, 10, 9),
    (0x7FFF_FFFF_FFFF_FFFF, 10, 4),
    (0x0123_4567_89AB_CDEF, 1000003, 4444),
    (0x0000_0000_0000_0005, 0, 0),
];

#[test]
fn integers() {
    for &(seed, key, hash) in MIX {
        let seed = Seed(seed);
        assert_eq!(mix64(seed, key), hash, "seed {seed} key {key:x}");
        assert_eq!(hash_u64(seed, key), hash);
        assert_eq!(hash_bytes(seed, &key.to_le_bytes()), hash);
        assert_eq!(unmix64(seed, hash), key);
    }
}

#[test]
fn bytes() {
    let input: Vec<u8> = (0..1024u32).map(|i| (i * 7 + 1) as u8).collect();
    for &(seed, len, hash) in BYTES {
        assert_eq!(hash_bytes(Seed(seed), &input[..len]), hash, "seed {seed:x} length {len}");
    }
}

#[test]
fn second_hashes() {
    for &(first, second) in SECOND {
        assert_eq!(second_hash(first), second, "{first:x}");
    }
}

#[test]
fn reductions() {
    for &(hash, range, result) in REDUCE {
        assert_eq!(reduce(hash, range), result, "{hash:x} over {range}");
    }
}
