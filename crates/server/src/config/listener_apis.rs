//! What the numbers of APIs mean on one listener, which the wire forms of transactional acknowledgements decide.

use sharemark_protocol::{APIS, Api, ApiKey, Listed, TxnShareDraft};

use super::settings::TxnDialect;

/// The APIs of one listener.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ListenerApis {
    /// APIs of the table that are not known here.
    unknown: Vec<ApiKey>,
    drafts: Vec<TxnShareDraft>,
}

impl ListenerApis {
    /// Returns what a listener knows that serves transactional acknowledgements in these forms.
    pub fn new(dialects: &[TxnDialect]) -> Self {
        let drafts: Vec<_> = TxnShareDraft::ALL
            .into_iter()
            .filter(|draft| dialects.contains(&TxnDialect::of(*draft)))
            .collect();
        let is_known = |api: &Api| {
            let key = api.key.to_wire();
            match api.listed {
                // A draft's key is not Kafka's here.
                Listed::Always => drafts.iter().all(|draft| draft.key() != key),
                Listed::WithTxnShareAcknowledge => dialects.iter().any(|form| form.keys().contains(&key)),
            }
        };
        let unknown = APIS.iter().filter(|api| !is_known(api)).map(|api| api.key).collect();
        Self { unknown, drafts }
    }

    /// Returns whether an API of the table is known here.
    pub fn knows(&self, key: ApiKey) -> bool {
        !self.unknown.contains(&key)
    }

    /// Returns the drafts that are known here, in ascending order of their keys.
    pub fn drafts(&self) -> &[TxnShareDraft] {
        &self.drafts
    }

    /// Returns the draft whose key this is here, if it is one.
    pub fn draft(&self, key: i16) -> Option<TxnShareDraft> {
        self.drafts.iter().copied().find(|draft| draft.key() == key)
    }
}
