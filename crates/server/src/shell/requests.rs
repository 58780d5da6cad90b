//! The last requests with their answers, as text, for whoever wants to know what a client really sent.

use std::collections::VecDeque;
use std::fmt::{self, Write};

use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::{ApiKey, NodeId};

use crate::broker::{ConnectionId, Request};

/// How many requests are kept.
pub(super) const REQUESTS_KEPT_MAX: usize = 1_000;

/// How much of a request or an answer is kept, in bytes.
const TEXT_BYTES_MAX: usize = 4_096;

/// A request and its answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RequestView {
    /// Counts requests, in the order in which they were handled.
    pub number: u64,
    /// Names the connection.
    pub connection: u64,
    /// The node that was asked.
    pub node: NodeId,
    /// The client's name for itself.
    pub client_id: Option<String>,
    /// The API.
    pub api: ApiKey,
    /// The version.
    pub version: i16,
    /// The decoded body, cut where it is long.
    pub request: String,
    /// The decoded answer, cut where it is long; none before it is there, or if there is none.
    pub answer: Option<String>,
}

/// Keeps the last requests of a server, if it is told to.
#[derive(Debug)]
pub(super) struct RequestLog {
    is_on: bool,
    next_number: u64,
    kept: VecDeque<RequestView>,
}

impl RequestLog {
    pub(super) fn new(is_on: bool) -> Self {
        Self { is_on, next_number: 0, kept: VecDeque::new() }
    }

    /// Notes a request that is about to be handled.
    pub(super) fn note(&mut self, request: &Request) {
        if !self.is_on {
            return;
        }
        if self.kept.len() == REQUESTS_KEPT_MAX {
            self.kept.pop_front();
        }
        let origin = &request.origin;
        self.kept.push_back(RequestView {
            number: self.next_number,
            connection: origin.connection.0,
            node: origin.node,
            client_id: origin.client_id.as_ref().map(ToString::to_string),
            api: request.message.api_key(),
            version: origin.api_version,
            request: shown(&request.message),
            answer: None,
        });
        self.next_number += 1;
    }

    /// Notes the answer to the request that a connection has out.
    pub(super) fn note_answer(&mut self, connection: ConnectionId, answer: &ResponseMessage) {
        // A connection has one request out: its last.
        let asked = self.kept.iter_mut().rev().find(|kept| kept.connection == connection.0);
        if let Some(asked) = asked.filter(|asked| asked.answer.is_none()) {
            asked.answer = Some(shown(answer));
        }
    }

    /// Returns the last `count` requests, the newest last.
    pub(super) fn last(&self, count: usize) -> Vec<RequestView> {
        self.kept.iter().skip(self.kept.len().saturating_sub(count)).cloned().collect()
    }
}

/// Returns how a message reads, cut where it is long. What is cut off is not even formatted.
fn shown(message: &impl fmt::Debug) -> String {
    let mut text = Cut(String::new());
    if write!(text, "{message:?}").is_err() {
        text.0.push('…');
    }
    text.0
}

/// Takes text until there is too much.
struct Cut(String);

impl Write for Cut {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let room = TEXT_BYTES_MAX - self.0.len();
        if more.len() <= room {
            self.0.push_str(more);
            return Ok(());
        }
        self.0.push_str(&more[..more.floor_char_boundary(room)]);
        Err(fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        assert_eq!(shown(&"short"), "\"short\"");
        let text = shown(&"é".repeat(TEXT_BYTES_MAX));
        assert!(text.len() <= TEXT_BYTES_MAX + '…'.len_utf8() && text.ends_with("é…"), "{}", text.len());
    }
}
