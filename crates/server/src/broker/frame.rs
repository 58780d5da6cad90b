//! What a frame of a connection asks for, found out without any state, on the thread of the connection.

use bytes::Bytes;
use sharemark_protocol::messages::api_versions_response::{ApiVersion, ApiVersionsResponse};
use sharemark_protocol::messages::request_header::RequestHeader;
use sharemark_protocol::messages::{RequestMessage, ResponseMessage};
use sharemark_protocol::{Api, ApiKey, DecodeError, ErrorCode, Reader, TxnShareDraft, decode_request_header};

use crate::config::ListenerApis;

/// A frame that can be answered.
#[derive(Clone, Debug)]
pub enum Frame {
    /// It is a request that is served.
    Request {
        /// Its header.
        header: RequestHeader,
        /// Its body.
        message: Box<RequestMessage>,
    },
    /// It is an ApiVersions of a version that is not served. It is answered in the layout of version 0, which
    /// every client reads (KIP-511).
    UnknownApiVersions {
        /// What the answer repeats.
        correlation_id: i32,
        /// The answer.
        answer: Box<ResponseMessage>,
    },
}

impl Frame {
    /// Reads a frame, given without its length, on a listener with these APIs.
    ///
    /// # Errors
    ///
    /// If the API or the version is not served, or the bytes are no such request; the connection then closes.
    pub fn read(bytes: &Bytes, apis: &ListenerApis) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        if let Some(draft) = apis.draft(reader.clone().read_i16()?) {
            return read_draft(draft, bytes);
        }
        let (api, header) = decode_request_header(&mut reader)?;
        if !apis.knows(api.key) {
            return Err(DecodeError::UnknownApi);
        }
        let version = header.request_api_version;
        if !api.serves(version) {
            return unknown_version(api, &header);
        }
        let message = RequestMessage::decode(api.key, version, &mut reader)?;
        reader.finish()?;
        Ok(Self::Request { header, message: Box::new(message) })
    }
}

/// Reads a request of an earlier draft; from here on it is one of key 95, and so is its answer.
fn read_draft(draft: TxnShareDraft, bytes: &Bytes) -> Result<Frame, DecodeError> {
    let (header, request) = draft.decode_request(bytes)?;
    Ok(Frame::Request { header, message: Box::new(RequestMessage::TxnShareAcknowledge(request)) })
}

fn unknown_version(api: &Api, header: &RequestHeader) -> Result<Frame, DecodeError> {
    if api.key != ApiKey::ApiVersions || header.request_api_version < 0 {
        return Err(DecodeError::UnsupportedVersion);
    }
    let own = ApiVersion {
        api_key: api.key.to_wire(),
        min_version: api.announced_min,
        max_version: api.announced_max,
    };
    let answer = ApiVersionsResponse {
        error_code: ErrorCode::UnsupportedVersion.code(),
        api_keys: vec![own],
        ..ApiVersionsResponse::default()
    };
    let answer = Box::new(ResponseMessage::ApiVersions(answer));
    Ok(Frame::UnknownApiVersions { correlation_id: header.correlation_id, answer })
}
