//! A client of the control endpoint: one request a connection.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Sends one request and returns the status and the body of its answer.
///
/// # Errors
///
/// If there is no answer, or it is not HTTP.
pub fn call(at: SocketAddr, method: &str, path: &str, body: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(at)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {at}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let wrong = || io::Error::other(format!("no answer of HTTP: {answer:?}"));
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(wrong)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(wrong)?;
    // With `Connection: close` a body is told by its length alone.
    assert!(!head.to_ascii_lowercase().contains("transfer-encoding"), "the body comes in one piece");
    Ok((status, body.to_owned()))
}
