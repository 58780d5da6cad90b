//! DescribeClientQuotas (48), versions 0-1. Difference from Kafka: entities come in order of their names.

use std::collections::BTreeMap;

use sharemark_protocol::ErrorCode;
use sharemark_protocol::messages::ResponseMessage;
use sharemark_protocol::messages::describe_client_quotas_request::{
    ComponentData, DescribeClientQuotasRequest,
};
use sharemark_protocol::messages::describe_client_quotas_response::{
    DescribeClientQuotasResponse, EntityData, EntryData, ValueData,
};

use super::Broker;
use super::authorize::{Operation, Resource, authorize};
use super::client_quotas::{Entity, EntityType, Match, Quotas, Refusal};
use super::input::Origin;

/// How a component of the filter is meant.
mod match_type {
    pub(super) const EXACT: i8 = 0;
    pub(super) const DEFAULT: i8 = 1;
    pub(super) const ANY: i8 = 2;
}

impl Broker {
    pub(super) fn handle_describe_client_quotas(
        &mut self,
        origin: &Origin,
        request: &DescribeClientQuotasRequest,
    ) {
        let allowed = authorize(&origin.principal, Operation::DescribeConfigs, Resource::Cluster);
        let wanted = if allowed {
            read_filter(&request.components)
        } else {
            Err((
                ErrorCode::ClusterAuthorizationFailed,
                ErrorCode::ClusterAuthorizationFailed.name().to_owned(),
            ))
        };
        let response = match wanted {
            Ok(wanted) => {
                let found = self.cluster.quotas.matching(&wanted, request.strict);
                DescribeClientQuotasResponse {
                    error_message: Some("".into()),
                    entries: Some(found.map(|(entity, quotas)| shown(entity, quotas)).collect()),
                    ..DescribeClientQuotasResponse::default()
                }
            }
            Err((error, text)) => DescribeClientQuotasResponse {
                error_code: error.code(),
                error_message: Some(text.into()),
                entries: None,
                ..DescribeClientQuotasResponse::default()
            },
        };
        self.answer(origin, ResponseMessage::DescribeClientQuotas(response));
    }
}

fn read_filter(components: &[ComponentData]) -> Result<BTreeMap<EntityType, Match>, Refusal> {
    let mut wanted = BTreeMap::new();
    let invalid = |text: &str| Err((ErrorCode::InvalidRequest, text.to_owned()));
    for component in components {
        let also = |kind: &str| {
            let text = format!("Request specified {kind}, but also specified a match string.");
            Err((ErrorCode::InvalidRequest, text))
        };
        let name = &*component.entity_type;
        if name.is_empty() {
            return invalid("Invalid empty entity type.");
        }
        let meant = match (component.match_type, &component.r#match) {
            (match_type::EXACT, Some(name)) => Match::Exact((&**name).into()),
            (match_type::EXACT, None) => {
                return invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.");
            }
            (match_type::DEFAULT, None) => Match::Default,
            (match_type::DEFAULT, Some(_)) => return also("MATCH_TYPE_DEFAULT"),
            (match_type::ANY, None) => Match::Any,
            (match_type::ANY, Some(_)) => return also("MATCH_TYPE_SPECIFIED"),
            (other, _) => return invalid(&format!("Unknown match type {other}")),
        };
        let Some(kind) = EntityType::parse(name) else {
            return Err((ErrorCode::UnsupportedVersion, format!("Unsupported entity type {name}")));
        };
        if wanted.insert(kind, meant).is_some() {
            return invalid(&format!("Entity type {name} cannot appear more than once in the filter."));
        }
    }
    if wanted.contains_key(&EntityType::Ip) && 1 < wanted.len() {
        return invalid(
            "Invalid entity filter component combination. IP filter component should not be used with user or \
             clientId filter component.",
        );
    }
    Ok(wanted)
}

fn shown(entity: &Entity, quotas: &Quotas) -> EntryData {
    let entity = entity.iter().map(|(kind, name)| EntityData {
        entity_type: kind.name().into(),
        entity_name: name.as_deref().map(Into::into),
    });
    let values = quotas.iter().map(|(key, value)| ValueData { key: (*key).into(), value: *value });
    EntryData { entity: entity.collect(), values: values.collect() }
}
