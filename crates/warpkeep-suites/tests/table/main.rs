//! Every index, in each of its forms, against a plain map, under threads, up against the wall.

mod subjects;

use subjects::{GpHash, TurboHash};
use warpkeep_suites::{adversary, oracle, threads};

/// A test of each suite for each subject.
macro_rules! suites {
    ($($name:ident: $subject:expr;)*) => {
        $(
            mod $name {
                use super::*;

                suites!(@tests $subject, oracle: agrees_with_a_plain_map, a_thousand_and_more_in_one_batch);
                suites!(
                    @tests $subject, threads: writers_readers_and_growth, space_is_reused_under_readers,
                    writers_of_one_key_take_turns, a_stage_that_is_dropped_was_never_there,
                    defragmenting_gives_space_back
                );
                suites!(
                    @tests $subject, adversary: a_full_image_refuses_and_stays_good,
                    deleting_and_reinserting_does_not_grow,
                    a_table_beyond_any_image_is_refused_and_leaves_nothing_behind
                );
            }
        )*
    };
    (@tests $subject:expr, $module:ident: $($test:ident),*) => {
        $(
            #[test]
            fn $test() {
                $module::$test($subject);
            }
        )*
    };
}

suites! {
    gphash_packed: GpHash::Packed;
    gphash_in_place: GpHash::InPlace;
    turbohash_of_one_shard: TurboHash { shards: 1 };
    turbohash_of_a_few_shards: TurboHash { shards: 16 };
}
