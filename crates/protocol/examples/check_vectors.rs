//! Checks a file of vectors: each line must decode and come back byte for byte.
//!
//! The columns are those of `tests/wire-vectors`. `cargo xtask vectors` makes such a file and runs this.

use std::process::ExitCode;

use bytes::Bytes;
use sharemark_protocol::messages::CODECS;

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: check_vectors FILE");
        return ExitCode::from(2);
    };
    match std::fs::read_to_string(&path) {
        Ok(text) => report(&text),
        Err(error) => {
            eprintln!("cannot read {path}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn report(text: &str) -> ExitCode {
    let (mut right, mut wrong) = (0, 0);
    for line in text.lines() {
        match check(line) {
            Ok(()) => right += 1,
            Err(reason) => {
                wrong += 1;
                eprintln!("{reason}: {line}");
            }
        }
    }
    println!("{right} messages came back byte for byte, {wrong} did not");
    if 0 < right && wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn check(line: &str) -> Result<(), String> {
    let mut columns = line.split('\t');
    let mut next = || columns.next().ok_or_else(|| "a column is missing".to_owned());
    let name = next()?;
    let codec = CODECS.iter().find(|codec| codec.name == name).ok_or("there is no such message")?;
    if next()? != codec.api_key.to_string() {
        return Err(format!("the key is not {}", codec.api_key));
    }
    let version = next()?.parse().map_err(|_| "the version is no number".to_owned())?;
    let bytes = unhex(next()?).ok_or("the bytes are not hexadecimal")?;
    let back = (codec.transcode)(version, &bytes).map_err(|error| error.to_string())?;
    if back == bytes { Ok(()) } else { Err("it comes back otherwise".to_owned()) }
}

fn unhex(digits: &str) -> Option<Bytes> {
    let value = |digit: u8| char::from(digit).to_digit(16);
    digits
        .as_bytes()
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => u8::try_from(value(*high)? << 4 | value(*low)?).ok(),
            _ => None,
        })
        .collect()
}
