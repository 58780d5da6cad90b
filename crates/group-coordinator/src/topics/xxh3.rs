//! XXH3 with 64 bits, no seed and its default secret, as Kafka's metadata hash needs it.

const SECRET_WORDS: [u64; 24] = [
    0xbe4b_a423_396c_feb8,
    0x1cad_21f7_2c81_017c,
    0xdb97_9083_e96d_d4de,
    0x1f67_b3b7_a4a4_4072,
    0x78e5_c0cc_4ee6_79cb,
    0x2172_ffcc_7dd0_5a82,
    0x8e24_43f7_7446_08b8,
    0x4c26_3a81_e690_35e0,
    0xcb00_c391_bb52_283c,
    0xa32e_531b_8b65_d088,
    0x4ef9_0da2_9748_6471,
    0xd8ac_dea9_46ef_1938,
    0x3f34_9ce3_3f76_faa8,
    0x1d4f_0bc7_c7bb_dcf9,
    0x3159_b4cd_4be0_518a,
    0x6473_78d9_c97e_9fc8,
    0xc3eb_d334_83ac_c5ea,
    0xeb63_13fa_ffa0_81c5,
    0x49da_f0b7_51dd_0d17,
    0x9e68_d429_2655_16d3,
    0xfca1_477d_58be_162b,
    0xce31_d07a_d1b8_f88f,
    0x2804_1695_8f3a_cb45,
    0x7e40_4bbb_cafb_d7af,
];
/// The words in little-endian order, since they are also read across their borders.
const SECRET: [u8; 192] = {
    let mut bytes = [0; 192];
    let mut at = 0;
    while at < bytes.len() {
        bytes[at] = SECRET_WORDS[at / 8].to_le_bytes()[at % 8];
        at += 1;
    }
    bytes
};
const PRIME32_1: u64 = 0x9e37_79b1;
const PRIME32_2: u64 = 0x85eb_ca77;
const PRIME32_3: u64 = 0xc2b2_ae3d;
const PRIME64_1: u64 = 0x9e37_79b1_85eb_ca87;
const PRIME64_2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const PRIME64_3: u64 = 0x1656_67b1_9e37_79f9;
const PRIME64_4: u64 = 0x85eb_ca77_c2b2_ae63;
const PRIME64_5: u64 = 0x27d4_eb2f_1656_67c5;
const STRIPE_BYTES: usize = 64;
const STRIPES_PER_BLOCK: usize = 16;
const BLOCK_BYTES: usize = STRIPE_BYTES * STRIPES_PER_BLOCK;

/// Returns the hash of `data`, as Java's signed number.
pub(super) fn hash(data: &[u8]) -> i64 {
    let hash = match data.len() {
        0 => finish_short(word(&SECRET, 56) ^ word(&SECRET, 64)),
        1..=3 => hash_up_to_3(data),
        4..=8 => hash_up_to_8(data),
        9..=16 => hash_up_to_16(data),
        17..=128 => hash_up_to_128(data),
        129..=240 => hash_up_to_240(data),
        _ => hash_long(data),
    };
    hash.cast_signed()
}

fn hash_up_to_3(data: &[u8]) -> u64 {
    let (first, middle, last) = (data[0], data[data.len() >> 1], data[data.len() - 1]);
    let combined =
        (u64::from(first) << 16) | (u64::from(middle) << 24) | u64::from(last) | ((data.len() as u64) << 8);
    finish_short(combined ^ half(&SECRET, 0) ^ half(&SECRET, 4))
}

fn hash_up_to_8(data: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9fb2_1c65_1e98_df25;
    let combined = half(data, data.len() - 4).wrapping_add(half(data, 0) << 32);
    let mut hash = combined ^ word(&SECRET, 8) ^ word(&SECRET, 16);
    hash ^= hash.rotate_left(49) ^ hash.rotate_left(24);
    hash = hash.wrapping_mul(FACTOR);
    hash ^= (hash >> 35).wrapping_add(data.len() as u64);
    hash = hash.wrapping_mul(FACTOR);
    hash ^ (hash >> 28)
}

fn hash_up_to_16(data: &[u8]) -> u64 {
    let low = word(data, 0) ^ word(&SECRET, 24) ^ word(&SECRET, 32);
    let high = word(data, data.len() - 8) ^ word(&SECRET, 40) ^ word(&SECRET, 48);
    let sum = (data.len() as u64).wrapping_add(low.swap_bytes()).wrapping_add(high);
    finish(sum.wrapping_add(fold(low, high)))
}

fn hash_up_to_128(data: &[u8]) -> u64 {
    let mut sum = (data.len() as u64).wrapping_mul(PRIME64_1);
    for pair in (0..data.len().div_ceil(32)).rev() {
        sum = sum.wrapping_add(mix(data, 16 * pair, 32 * pair));
        sum = sum.wrapping_add(mix(data, data.len() - 16 * (pair + 1), 32 * pair + 16));
    }
    finish(sum)
}

fn hash_up_to_240(data: &[u8]) -> u64 {
    let mut sum = (data.len() as u64).wrapping_mul(PRIME64_1);
    for round in 0..8 {
        sum = sum.wrapping_add(mix(data, 16 * round, 16 * round));
    }
    sum = finish(sum);
    for round in 8..data.len() / 16 {
        sum = sum.wrapping_add(mix(data, 16 * round, 16 * (round - 8) + 3));
    }
    finish(sum.wrapping_add(mix(data, data.len() - 16, 119)))
}

fn hash_long(data: &[u8]) -> u64 {
    let mut lanes = [PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1];
    let block_count = (data.len() - 1) / BLOCK_BYTES;
    for block in 0..block_count {
        for stripe in 0..STRIPES_PER_BLOCK {
            accumulate(&mut lanes, data, block * BLOCK_BYTES + stripe * STRIPE_BYTES, 8 * stripe);
        }
        for (index, lane) in lanes.iter_mut().enumerate() {
            *lane = (*lane ^ (*lane >> 47) ^ word(&SECRET, 128 + 8 * index)).wrapping_mul(PRIME32_1);
        }
    }
    let rest_at = block_count * BLOCK_BYTES;
    for stripe in 0..(data.len() - 1 - rest_at) / STRIPE_BYTES {
        accumulate(&mut lanes, data, rest_at + stripe * STRIPE_BYTES, 8 * stripe);
    }
    accumulate(&mut lanes, data, data.len() - STRIPE_BYTES, 121);
    let mut sum = (data.len() as u64).wrapping_mul(PRIME64_1);
    for (index, pair) in lanes.as_chunks::<2>().0.iter().enumerate() {
        let secret_at = 11 + 16 * index;
        sum = sum
            .wrapping_add(fold(pair[0] ^ word(&SECRET, secret_at), pair[1] ^ word(&SECRET, secret_at + 8)));
    }
    finish(sum)
}

fn accumulate(lanes: &mut [u64; 8], data: &[u8], at: usize, secret_at: usize) {
    for index in 0..8 {
        let value = word(data, at + 8 * index);
        let keyed = value ^ word(&SECRET, secret_at + 8 * index);
        lanes[index ^ 1] = lanes[index ^ 1].wrapping_add(value);
        lanes[index] = lanes[index].wrapping_add((keyed & 0xffff_ffff).wrapping_mul(keyed >> 32));
    }
}

fn mix(data: &[u8], at: usize, secret_at: usize) -> u64 {
    fold(word(data, at) ^ word(&SECRET, secret_at), word(data, at + 8) ^ word(&SECRET, secret_at + 8))
}

/// Returns the two halves of the 128-bit product, folded into one.
fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    (product as u64) ^ ((product >> 64) as u64)
}

fn finish(sum: u64) -> u64 {
    let hash = (sum ^ (sum >> 37)).wrapping_mul(0x1656_6791_9e37_79f9);
    hash ^ (hash >> 32)
}

fn finish_short(sum: u64) -> u64 {
    let mut hash = (sum ^ (sum >> 33)).wrapping_mul(PRIME64_2);
    hash = (hash ^ (hash >> 29)).wrapping_mul(PRIME64_3);
    hash ^ (hash >> 32)
}

/// Returns the eight bytes at `at`, little-endian. The callers keep within `data`.
fn word(data: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&data[at..at + 8]);
    u64::from_le_bytes(bytes)
}

/// Returns the four bytes at `at`, little-endian.
fn half(data: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&data[at..at + 4]);
    u64::from(u32::from_le_bytes(bytes))
}
