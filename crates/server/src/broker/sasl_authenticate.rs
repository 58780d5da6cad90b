//! SaslAuthenticate (36), versions 0-2. No listener asks for SASL yet, so it is always out of place.

use sharemark_protocol::ErrorCode;
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::sasl_authenticate_response::SaslAuthenticateResponse;

use super::Broker;
use super::input::Origin;

impl Broker {
    pub(super) fn handle_sasl_authenticate(&mut self, origin: &Origin) {
        let text = "SaslAuthenticate request received after successful authentication";
        let response = SaslAuthenticateResponse {
            error_code: ErrorCode::IllegalSaslState.code(),
            error_message: Some(text.into()),
            ..SaslAuthenticateResponse::default()
        };
        self.answer(origin, ResponseMessage::SaslAuthenticate(response));
    }
}
