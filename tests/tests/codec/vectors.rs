//! Reads the files of `tests/wire-vectors`.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use bytes::Bytes;
use flate2::read::GzDecoder;
use sharemark_protocol::MessageCodec;
use sharemark_protocol::messages::CODECS;

/// One message as Kafka wrote it.
#[derive(Debug)]
pub(crate) struct Vector {
    pub(crate) name: String,
    pub(crate) api_key: i16,
    pub(crate) version: i16,
    pub(crate) bytes: Bytes,
}

impl Vector {
    /// Finds the codec of the message.
    pub(crate) fn codec(&self) -> &'static MessageCodec {
        codec(&self.name)
    }
}

/// Finds the codec of the message called `name`.
pub(crate) fn codec(name: &str) -> &'static MessageCodec {
    let index = CODECS.binary_search_by(|codec| codec.name.cmp(name)).expect("each message has a codec");
    &CODECS[index]
}

/// Hands out each line of a file.
pub(crate) fn vectors(file: &str, mut take: impl FnMut(Vector)) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("wire-vectors").join(file);
    let file = File::open(&path).expect("the vectors are part of the repository");
    for line in BufReader::new(GzDecoder::new(file)).lines() {
        let line = line.unwrap();
        let mut columns = line.split('\t');
        let mut next = || columns.next().expect("a line has five columns");
        take(Vector {
            name: next().to_owned(),
            api_key: next().parse().unwrap(),
            version: next().parse().unwrap(),
            bytes: unhex(next()),
        });
    }
}

fn unhex(digits: &str) -> Bytes {
    let value = |digit: u8| char::from(digit).to_digit(16).expect("digits are hexadecimal") as u8;
    digits.as_bytes().chunks(2).map(|pair| value(pair[0]) << 4 | value(pair[1])).collect()
}
