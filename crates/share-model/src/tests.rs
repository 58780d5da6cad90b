use proptest::collection::vec;
use proptest::prelude::*;

use super::{OPERATION_LEN, run_operations};

/// How many random sequences an ordinary run tries; `SHAREMARK_MODEL_CASES` asks for another number.
const CASES: u32 = 2_000;

fn cases() -> u32 {
    std::env::var("SHAREMARK_MODEL_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(CASES)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_lock_table_equals_the_model(operations in vec(any::<[u8; OPERATION_LEN]>(), 1..80)) {
        run_operations(operations.as_flattened());
    }
}
