//! AlterClientQuotas (49), versions 0-1. Difference from Kafka: the name of a host is no address, but `localhost`.

use sharemark_protocol::ErrorCode;
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::alter_client_quotas_request::{self as asked, AlterClientQuotasRequest};
use sharemark_protocol::messages::alter_client_quotas_response::{
    AlterClientQuotasResponse, EntityData, EntryData,
};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::client_quotas::{QuotaChange, Refusal};
use super::input::Origin;

impl Broker {
    pub(super) fn handle_alter_client_quotas(&mut self, origin: &Origin, request: &AlterClientQuotasRequest) {
        let allowed = authorize(&origin.principal, Operation::AlterConfigs, Resource::Cluster);
        let mut entries = Vec::with_capacity(request.entries.len());
        for entry in &request.entries {
            let outcome = if allowed {
                self.decide_quotas(entry)
            } else {
                let error = ErrorCode::ClusterAuthorizationFailed;
                Err((error, error.name().to_owned()))
            };
            let (error, message) = match outcome {
                Ok(change) => {
                    if !request.validate_only {
                        self.cluster.quotas.replay(change);
                    }
                    (ErrorCode::None, None)
                }
                Err((error, text)) => (error, Some(text.into())),
            };
            let entity = entry.entity.iter().map(|part| EntityData {
                entity_type: part.entity_type.clone(),
                entity_name: part.entity_name.clone(),
            });
            entries.push(EntryData {
                error_code: error.code(),
                error_message: message,
                entity: entity.collect(),
            });
        }
        let response = AlterClientQuotasResponse { throttle_time_ms: 0, entries };
        self.answer(origin, ResponseMessage::AlterClientQuotas(response));
    }

    fn decide_quotas(&self, entry: &asked::EntryData) -> Result<QuotaChange, Refusal> {
        let entity: Vec<(&str, Option<&str>)> =
            entry.entity.iter().map(|part| (&*part.entity_type, part.entity_name.as_deref())).collect();
        let operations: Vec<(&str, Option<f64>)> =
            entry.ops.iter().map(|op| (&*op.key, (!op.remove).then_some(op.value))).collect();
        self.cluster.quotas.decide(&entity, &operations)
    }
}
