//! Replays what the fuzz targets have found worth keeping, `fuzz/corpus/*`, with an ordinary compiler.
//!
//! `FUZZ_SEEDS=FOLDER` writes inputs to start a fuzzer from instead: the frames that transcripts send, and
//! messages and records as Kafka wrote them.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sharemark_log::batch::{BatchBuilder, Compression};
use sharemark_protocol::messages::api_versions_request::ApiVersionsRequest;
use sharemark_protocol::messages::metadata_request::MetadataRequest;
use sharemark_protocol::{APIS, Timestamp};
use sharemark_testkit::client::{Connection, is_closed};
use sharemark_testkit::fuzz::{FrameEvent, FrameEvents, TARGETS, frame_events, record};
use sharemark_testkit::process::{Sharemark, workspace};
use sharemark_testkit::transcript::Script;

/// Longer than any answer takes once the client has sent its last byte.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(20);
/// How many messages of one version become seeds.
const SEEDS_PER_VERSION: usize = 2;
/// Longer seeds make a fuzzer slow.
const SEED_BYTES_MAX: usize = 600;

fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn the_corpus_still_passes() {
    let corpus = workspace().join("fuzz/corpus");
    for (name, target) in TARGETS {
        let files = files(&corpus.join(name));
        assert!(!files.is_empty(), "the target {name} has a corpus");
        for file in &files {
            let input = std::fs::read(file).unwrap();
            let outcome = std::panic::catch_unwind(|| target(&input));
            assert!(outcome.is_ok(), "the target {name} takes {}", file.display());
        }
        println!("fuzz corpus of {name}: {} inputs replayed", files.len());
    }
}

/// The frames of the corpus over sockets, and a server that serves others afterwards.
#[test]
fn a_server_still_serves_after_the_corpus() {
    let server = Sharemark::start_on_free_port(&[]).unwrap();
    let files = files(&workspace().join("fuzz/corpus/frames"));
    let mut frame_count = 0;
    for file in &files {
        let input = std::fs::read(file).unwrap();
        let mut connections: BTreeMap<u8, Connection> = BTreeMap::new();
        for event in frame_events(&input) {
            if let FrameEvent::Frame { connection, frame, .. } = event {
                let connection = connections.entry(connection).or_insert_with(|| connect(&server));
                frame_count += 1;
                drop(connection.send_frame(&frame)); // An error means that the server has closed it.
            }
        }
        for (name, mut connection) in connections {
            drop(connection.finish_sending());
            while let Some(answer) = connection.read_frame().transpose() {
                match answer {
                    Ok(_) => {}
                    Err(error) if is_closed(&error) => break,
                    Err(error) => panic!("{}: connection {name} does not end: {error}", file.display()),
                }
            }
        }
    }
    let mut connection = connect(&server);
    let versions = connection.call(&ApiVersionsRequest::default(), 0).unwrap();
    assert_eq!(versions.error_code, 0);
    let metadata = connection.call(&MetadataRequest::default(), 9).unwrap();
    assert_eq!(metadata.brokers.len(), 1);
    assert!(server.stop().unwrap().success(), "the server stops in order");
    println!("fuzz corpus over TCP: {frame_count} frames of {} inputs", files.len());
}

fn connect(server: &Sharemark) -> Connection {
    let mut connection = Connection::open(server.bootstrap()).unwrap();
    connection.set_read_timeout(ANSWER_WAIT_MAX).unwrap();
    connection
}

#[test]
fn every_target_is_built_and_has_a_corpus() {
    let names: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let root = workspace();
    let stem = |path: &PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
    assert_eq!(files(&root.join("fuzz/fuzz_targets")).iter().map(stem).collect::<BTreeSet<_>>(), names);
    assert_eq!(files(&root.join("fuzz/corpus")).iter().map(stem).collect::<BTreeSet<_>>(), names);
}

#[test]
fn seeds_are_written_on_demand() {
    let Some(folder) = std::env::var_os("FUZZ_SEEDS") else { return };
    let seeds = Seeds { folder: folder.into() };
    seeds.transcripts();
    seeds.messages();
    seeds.records();
    seeds.state_records();
    seeds.write("commands", "walk", &(0..=255).collect::<Vec<u8>>());
    seeds.write("share_partition", "walk", &(0..=255).collect::<Vec<u8>>());
}

struct Seeds {
    folder: PathBuf,
}

impl Seeds {
    fn write(&self, target: &str, name: &str, bytes: &[u8]) {
        let folder = self.folder.join(target);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(name), bytes).unwrap();
    }

    /// Each transcript as one run, and each of its requests as a run after the prelude.
    fn transcripts(&self) {
        let mut known = BTreeSet::new();
        for path in files(&workspace().join("tests/transcripts")) {
            if path.extension().is_none_or(|extension| extension != "txt") {
                continue;
            }
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let script = Script::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
            let commands: Vec<&str> =
                script.commands().filter(|command| !command.starts_with("state")).collect();
            let (events, _) = record(commands.iter().copied());
            self.write("frames", &name, &events.input(false));
            for frame in events.frames().filter(|frame| frame.len() <= SEED_BYTES_MAX) {
                self.write("messages", &format!("{name}-{}", known.len()), &[&[0], frame].concat());
                if known.insert(frame[..4].to_vec()) {
                    let mut one = FrameEvents::default();
                    one.frame(1, frame);
                    self.write("frames", &format!("one-{}", known.len()), &one.input(true));
                }
            }
        }
    }

    /// Messages that Kafka wrote: requests and answers of every served version.
    fn messages(&self) {
        let mut seen: BTreeSet<(String, i16, usize)> = BTreeSet::new();
        for (schema, _, version, bytes) in vectors("kafka-4.4-messages.tsv.gz") {
            let api = APIS.iter().find(|api| {
                schema.strip_suffix("Request").or(schema.strip_suffix("Response")) == Some(api.name)
            });
            let Some(api) = api.filter(|api| api.serves(version) && bytes.len() <= SEED_BYTES_MAX) else {
                continue;
            };
            let count = (0..SEEDS_PER_VERSION).find(|count| seen.insert((schema.clone(), version, *count)));
            let Some(count) = count else { continue };
            let mut seed = Vec::new();
            if schema.ends_with("Request") {
                seed.push(0);
                seed.extend(api.key.to_wire().to_be_bytes());
                seed.extend(version.to_be_bytes());
                seed.extend([0, 0, 0, 1, 0xff, 0xff]);
                seed.extend((api.request_header_version(version) == 2).then_some(0));
            } else {
                let index = APIS.iter().position(|other| other.key == api.key).unwrap();
                seed.extend([1, u8::try_from(index).unwrap()]);
                seed.push(u8::try_from(version - api.served_min).unwrap());
                seed.extend([0, 0, 0, 1]);
                seed.extend((api.response_header_version(version) == 1).then_some(0));
            }
            seed.extend(bytes);
            self.write("messages", &format!("{schema}-{version}-{count}"), &seed);
        }
    }

    fn records(&self) {
        let codecs =
            [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
        for (index, codec) in codecs.into_iter().enumerate() {
            let batch = BatchBuilder::new()
                .compression(codec)
                .record(Timestamp::from_ms(1_900_000_000_000), Some(b"key"), Some(&[b'v'; 40]))
                .record(Timestamp::from_ms(1_900_000_000_007), None, None)
                .build();
            self.write("records", &format!("codec-{index}"), &[&[1], &batch[..]].concat());
        }
    }

    fn state_records(&self) {
        let records: Vec<_> = vectors("kafka-4.4-records.tsv.gz").collect();
        let kinds = [("Share", 0), ("TransactionLog", 1), ("ShareGroup", 2)];
        for (schema, record_type, _, key) in &records {
            let Some(name) = schema.strip_suffix("Key") else { continue };
            let kind = kinds.iter().rfind(|(prefix, _)| name.starts_with(prefix));
            let Some((_, kind)) = kind else { continue };
            let values = records.iter().filter(|(schema, ..)| schema.strip_suffix("Value") == Some(name));
            for (index, (_, _, version, value)) in values.step_by(4).enumerate() {
                let mut seed = vec![*kind, u8::try_from(key.len() + 2).unwrap_or(u8::MAX)];
                seed.extend(record_type.to_be_bytes());
                seed.extend(key);
                seed.extend(version.to_be_bytes());
                seed.extend(value);
                self.write("state_records", &format!("{name}-{index}"), &seed);
            }
        }
    }
}

/// Lines of a file of messages: schema, API key or record type, version, bytes.
fn vectors(file: &str) -> impl Iterator<Item = (String, i16, i16, Vec<u8>)> {
    let path = workspace().join("tests/wire-vectors").join(file);
    let mut text = String::new();
    let mut reader = flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap());
    reader.read_to_string(&mut text).unwrap();
    let lines: Vec<_> = text.lines().map(line).collect();
    lines.into_iter()
}

fn line(line: &str) -> (String, i16, i16, Vec<u8>) {
    let columns: Vec<&str> = line.split('\t').collect();
    let digits = columns[3].as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let bytes = digits.chunks_exact(2).map(byte).collect();
    (columns[0].to_owned(), columns[1].parse().unwrap(), columns[2].parse().unwrap(), bytes)
}
