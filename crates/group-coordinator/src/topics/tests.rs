use super::*;

/// What Kafka's own library says of bytes `131 * i + 7`.
const KAFKA_HASHES: [(usize, i64); 33] = [
    (0, 3244421341483603138),
    (1, 5502495245947142431),
    (2, 3010103725172346478),
    (3, 7943829059066201772),
    (4, 6650799683851767871),
    (5, 5329424330036611939),
    (8, -433104430451296011),
    (9, 8944394699905593055),
    (12, 1644623058608254533),
    (16, -8742622969447446440),
    (17, -5364924204495744911),
    (32, -2057812048208419218),
    (33, -6566554354575335565),
    (64, 1338082372350062813),
    (65, -7510104758670172471),
    (96, -9139658339728870555),
    (97, -1061261424723314211),
    (127, -1347431566829023819),
    (128, 1211889905577015873),
    (129, 1605741916052902306),
    (144, -5445485513641092422),
    (200, -4540823641285081050),
    (240, -5273803999686196762),
    (241, -7679571566553258082),
    (256, -5665997791763767380),
    (320, 2935320710940827641),
    (511, 6491897709703144074),
    (1024, 8123710315364152507),
    (1025, 7405123385822357415),
    (1088, -847301810213770052),
    (2048, -8410812437646067152),
    (2049, 6349179943806269125),
    (5000, -2017479414651090596),
];

const ORDERS: TopicId = TopicId::from_bytes([
    0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff,
]);

#[test]
fn hash_is_that_of_kafkas_library_at_every_length_class() {
    for (length, expected) in KAFKA_HASHES {
        let data: Vec<u8> = (0..length).map(|index| (index * 131 + 7) as u8).collect();
        assert_eq!(xxh3::hash(&data), expected, "{length} bytes");
    }
}

#[test]
fn topic_and_group_hashes_are_kafkas() {
    for (partition_count, topic, group, group_of_two) in [
        (1, 2221938578073577951, 704502385592118527, 5210919503532492092),
        (3, -3631099842061097785, 4375729222792458428, 5232106856244688764),
        (50, -342579050297196373, 8960014196488038002, -4602893354249913965),
        (300, -1836465211438964379, -6409568281446149568, 5133491092303884774),
    ] {
        let hash = topic_hash("orders", TopicFacts { id: ORDERS, partition_count });
        assert_eq!(hash, topic, "{partition_count} partitions");
        assert_eq!(group_hash([hash]), group);
        assert_eq!(group_hash([hash, -5]), group_of_two);
    }
    assert_eq!(group_hash([]), 0);
}

#[test]
fn hash_depends_on_every_fact() {
    let facts = TopicFacts { id: ORDERS, partition_count: 2 };
    let other_id = TopicFacts { id: TopicId::from_bytes([1; 16]), ..facts };
    let more = TopicFacts { partition_count: 3, ..facts };
    let hash = topic_hash("orders", facts);
    assert_ne!(hash, topic_hash("orderz", facts));
    assert_ne!(hash, topic_hash("orders", other_id));
    assert_ne!(hash, topic_hash("orders", more));
}
