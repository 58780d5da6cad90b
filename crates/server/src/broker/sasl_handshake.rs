//! SaslHandshake (17), versions 0-1. No listener asks for SASL yet, so it is always out of place.

use sharemark_protocol::ErrorCode;
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::sasl_handshake_response::SaslHandshakeResponse;

use super::Broker;
use super::input::Origin;

impl Broker {
    pub(super) fn handle_sasl_handshake(&mut self, origin: &Origin) {
        let response = SaslHandshakeResponse {
            error_code: ErrorCode::IllegalSaslState.code(),
            ..SaslHandshakeResponse::default()
        };
        self.answer(origin, ResponseMessage::SaslHandshake(response));
    }
}
