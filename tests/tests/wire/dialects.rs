//! The wire forms of transactional share acknowledgements, one server with a listener for each.

use std::net::SocketAddr;
use std::path::Path;

use bytes::BufMut;
use sharemark::Server;
use sharemark_testkit::client::{Connection, request_header};
use sharemark_testkit::process::replay;

use super::{CLOSE_WAIT_MAX, api_versions, assert_closes};

/// The forms of each listener, and the keys that its ApiVersions shows above those of share groups.
const LISTENERS: [(&str, &str, &[i16]); 6] = [
    ("DEFAULTS", "", &[95, 32025, 32093]),
    ("NEWEST", "k95", &[95]),
    ("BETWEEN", "k94", &[94]),
    ("FIRST", "k93", &[93]),
    ("SEVERAL", "seed,k93,k95,k94", &[93, 94, 95, 32025, 32093]),
    ("NONE", "off", &[]),
];

/// The keys of all forms.
const KEYS: [i16; 5] = [93, 94, 95, 32025, 32093];

/// The frames that the specification gives for each key. That of key 94 is of the shape of key 95.
const FRAMES: [(i16, &str); 5] = [
    (
        93,
        "005d000000000001000163000674786e2d3103673100000000000010000007096d656d6265722d31000000050200112233445566778\
         899aabbccddeeff020000000303000000000000000a000000000000000e0100000000000000000f000000000000000f0300000000",
    ),
    (
        94,
        "005e000000000001000163000674786e2d3103673100000000000010000007096d656d6265722d31000000050200112233445566778\
         899aabbccddeeff020000000303000000000000000a000000000000000e020100000000000000000f0000000000000011040300010\
         0000000",
    ),
    (
        95,
        "005f000000000001000163000674786e2d3103673100000000000010000007096d656d6265722d31000000050200112233445566778\
         899aabbccddeeff020000000303000000000000000a000000000000000e020100000000000000000f0000000000000011040300010\
         0000000",
    ),
    (32025, "7d19000000000001000163000674786e2d31000000000000100000070367310202740300000003000000040000"),
    (
        32093,
        "7d5d000000000001000163000367310674786e2d310200112233445566778899aabbccddeeff020000000302000000000000000a00\
         0000000000000e0100000000",
    ),
];

/// What a server without groups, topics and transactions answers to them: 69, unknown group; 3, unknown topic; 16, not the
/// coordinator.
const ANSWERS: [(i16, &str); 5] = [
    (93, "00000001000000000000450100"),
    (94, "00000001000000000000450100"),
    (95, "00000001000000000000450100"),
    (32025, "000000010000000000000300"),
    (32093, "00000001000000000000100100"),
];

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.chars().map(|digit| u8::try_from(digit.to_digit(16).unwrap()).unwrap()).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn named(table: &[(i16, &str)], key: i16) -> Vec<u8> {
    bytes(table.iter().find(|(of, _)| *of == key).unwrap().1)
}

/// Starts a server with all these listeners, on free ports.
fn server(features: &[&str], journal: Option<&Path>) -> Server {
    let join = |entry: fn(&str) -> String| {
        LISTENERS.iter().map(|(name, _, _)| entry(name)).collect::<Vec<_>>().join(",")
    };
    let mut builder = Server::builder();
    if let Some(path) = journal {
        builder = builder.journal(path);
    }
    let server = builder.config(|mut config| {
        config = config
            .property("listeners", join(|name| format!("{name}://127.0.0.1:0")))
            .property("listener.security.protocol.map", join(|name| format!("{name}:PLAINTEXT")));
        for (name, forms, _) in LISTENERS.iter().filter(|(_, forms, _)| !forms.is_empty()) {
            let property = format!("listener.name.{}.share.txn.dialect", name.to_lowercase());
            config = config.property(&*property, *forms);
        }
        features.iter().fold(config, |config, feature| config.feature(*feature))
    });
    server.start().unwrap()
}

fn connect(address: SocketAddr) -> Connection {
    let mut connection = Connection::open(address).unwrap();
    connection.set_read_timeout(CLOSE_WAIT_MAX).unwrap();
    connection
}

/// Calls `visit` with each listener's address, name and keys.
fn each_listener(server: &Server, mut visit: impl FnMut(SocketAddr, &str, &[i16])) {
    let addresses = &server.addresses()[0].listeners;
    assert_eq!(addresses.len(), LISTENERS.len());
    for ((name, _, keys), (listening, address)) in LISTENERS.iter().zip(addresses) {
        assert_eq!(name, listening);
        visit(*address, name, keys);
    }
}

/// What ApiVersions shows above key 92, with its versions.
fn shown(address: SocketAddr) -> Vec<(i16, i16, i16)> {
    let answer = connect(address).call(&api_versions(), 4).unwrap();
    assert!(answer.api_keys.is_sorted_by_key(|api| api.api_key));
    let keys = answer.api_keys.iter().map(|api| (api.api_key, api.min_version, api.max_version));
    keys.filter(|(key, _, _)| 92 < *key).collect()
}

#[test]
fn each_listener_shows_and_knows_its_own_forms() {
    let journal = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dialects.journal");
    let server = server(&[], Some(&journal));
    each_listener(&server, |address, name, keys| {
        let expected: Vec<_> = keys.iter().map(|key| (*key, 0, 0)).collect();
        assert_eq!(shown(address), expected, "{name}");
        for key in KEYS {
            let mut connection = connect(address);
            connection.send_frame(&named(&FRAMES, key)).unwrap();
            if keys.contains(&key) {
                let answer = connection.read_frame().unwrap().expect("an answer");
                assert_eq!(answer, named(&ANSWERS, key), "{name} answers key {key}");
            } else {
                assert_closes(&mut connection, &format!("{name} does not know key {key}"));
            }
        }
    });
    server.stop().unwrap();
    let (code, printed) = replay(&journal).unwrap();
    assert_eq!(code, Some(0), "{printed}");
}

/// Below level 3 the forms are not shown, and are answered with 35 where they are known.
#[test]
fn without_the_feature_no_form_is_shown() {
    let server = server(&["share.version=2"], None);
    each_listener(&server, |address, name, keys| {
        assert_eq!(shown(address), [], "{name}");
        for key in keys {
            let mut connection = connect(address);
            connection.send_frame(&named(&FRAMES, *key)).unwrap();
            let answer = connection.read_frame().unwrap().expect("an answer");
            assert_eq!(answer[9..11], [0, 35], "{name} answers key {key}: {answer:?}");
        }
    });
}

/// Cut, lengthened, of another version or with a hostile count: the connection closes, and the listener serves on.
#[test]
fn what_is_no_such_request_closes_the_connection() {
    let server = server(&[], None);
    each_listener(&server, |address, name, keys| {
        for key in keys {
            let frame = named(&FRAMES, *key);
            let mut wrong: Vec<Vec<u8>> =
                (4..frame.len()).step_by(7).map(|end| frame[..end].to_vec()).collect();
            wrong.push([&frame[..], &[0]].concat());
            wrong.push([&frame[..3], &[1], &frame[4..]].concat());
            // A count of two thousand million topics.
            let mut hostile = request_header(*key, 0, 1, None, true);
            hostile.put_slice(&bytes("0674786e2d3103673100000000000010000007096d656d6265722d3100000005"));
            hostile.put_slice(&[0xff, 0xff, 0xff, 0xff, 0x07]);
            wrong.push(hostile.to_vec());
            for bytes in wrong {
                let mut connection = connect(address);
                connection.send_frame(&bytes).unwrap();
                assert_closes(&mut connection, &format!("{name}, key {key}: {bytes:02x?}"));
            }
        }
        assert_eq!(connect(address).call(&api_versions(), 4).unwrap().error_code, 0, "{name} serves on");
    });
}
