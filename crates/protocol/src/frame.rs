//! Requests and answers with their headers and, for answers, the length in front.

use bytes::Bytes;

use crate::codec::{DecodeError, Message, Reader, Writer};
use crate::messages::request_header::RequestHeader;
use crate::messages::response_header::ResponseHeader;
use crate::messages::{RequestMessage, ResponseMessage};
use crate::{Api, ApiKey, StrBytes};

/// Reads the header of a request, which says how to read the rest:
/// `RequestMessage::decode(api.key, header.request_api_version, reader)`.
///
/// The version is not checked, since ApiVersions answers also those that it does not know.
///
/// # Errors
///
/// If the API is not served or the bytes are no header.
pub fn decode_request_header(reader: &mut Reader<'_>) -> Result<(&'static Api, RequestHeader), DecodeError> {
    let mut ahead = reader.clone();
    let key = ApiKey::from_wire(ahead.read_i16()?).ok_or(DecodeError::UnknownApi)?;
    let version = ahead.read_i16()?;
    let api = key.api();
    let header = RequestHeader::decode(api.request_header_version(version), reader)?;
    Ok((api, header))
}

/// Reads a whole request frame, without the length in front of it.
///
/// # Errors
///
/// If the API or version is not served, the bytes are no such request, or some are left over.
pub fn decode_request(frame: &Bytes) -> Result<(RequestHeader, RequestMessage), DecodeError> {
    let mut reader = Reader::new(frame);
    let (api, header) = decode_request_header(&mut reader)?;
    if !api.serves(header.request_api_version) {
        return Err(DecodeError::UnsupportedVersion);
    }
    let request = RequestMessage::decode(api.key, header.request_api_version, &mut reader)?;
    reader.finish()?;
    Ok((header, request))
}

/// Returns an answer as the pieces of its frame, the length in front included.
pub fn encode_response(correlation_id: i32, version: i16, response: &ResponseMessage) -> Vec<Bytes> {
    let mut out = Writer::new();
    out.write_i32(0); // The length, once it is known.
    let header_version = response.api_key().api().response_header_version(version);
    ResponseHeader { correlation_id }.encode(header_version, &mut out);
    response.encode(version, &mut out);
    out.patch_frame_length();
    out.into_pieces()
}

/// Returns a request as its frame, the length in front included.
pub fn encode_request(
    correlation_id: i32,
    client_id: Option<&str>,
    version: i16,
    request: &RequestMessage,
) -> Bytes {
    let api = request.api_key().api();
    let header = RequestHeader {
        request_api_key: api.key.to_wire(),
        request_api_version: version,
        correlation_id,
        client_id: client_id.map(StrBytes::from),
    };
    let mut out = Writer::new();
    out.write_i32(0); // The length, once it is known.
    header.encode(api.request_header_version(version), &mut out);
    request.encode(version, &mut out);
    out.patch_frame_length();
    out.into_bytes()
}

/// Reads a whole answer frame, without the length in front of it, to a request of `key` and `version`;
/// returns its correlation id too.
///
/// # Errors
///
/// If the bytes are no such answer, or some are left over.
pub fn decode_response(
    key: ApiKey,
    version: i16,
    frame: &Bytes,
) -> Result<(i32, ResponseMessage), DecodeError> {
    let mut reader = Reader::new(frame);
    let header = ResponseHeader::decode(key.api().response_header_version(version), &mut reader)?;
    let response = ResponseMessage::decode(key, version, &mut reader)?;
    reader.finish()?;
    Ok((header.correlation_id, response))
}

#[cfg(test)]
mod tests;
