//! Acknowledgements as a request carries them, and the checks of their shape.

use sharemark_protocol::ErrorCode;

use crate::AcknowledgeType;

/// One range of a partition's acknowledgements, with the numbers of the request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AcknowledgementBatch<'a> {
    /// The lowest offset.
    pub first_offset: i64,
    /// The highest offset, which belongs to the range.
    pub last_offset: i64,
    /// One acknowledge type for the range, or one for each offset.
    pub types: &'a [i8],
}

/// What a request may say in its acknowledgements.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AcknowledgeRules {
    /// The highest acknowledge type that the request's version knows.
    pub type_max: AcknowledgeType,
    /// Whether the request announced renewals (`IsRenewAck`).
    pub is_renew_ack: bool,
}

impl AcknowledgeRules {
    /// Returns the highest id of a type that may stand in the request; renewals have the highest of all.
    fn allowed_max(&self) -> u8 {
        let max = if self.is_renew_ack { AcknowledgeType::Renew } else { AcknowledgeType::Reject };
        self.type_max.id().min(max.id()).cast_unsigned()
    }
}

/// Checks the shape of one partition's acknowledgements, without looking at the share partition.
///
/// # Errors
///
/// `InvalidRequest` if a range ends before it begins or lies below the end of the one before it, if it has no
/// type, or more than one and not one for each offset, if a type is unknown, or a renewal unannounced.
#[inline]
pub fn check_acknowledgements(
    batches: &[AcknowledgementBatch<'_>],
    rules: &AcknowledgeRules,
) -> Result<(), ErrorCode> {
    let type_max = rules.allowed_max();
    let mut previous_last = i64::MIN;
    for batch in batches {
        if batch.last_offset < batch.first_offset || batch.first_offset < 0 {
            return Err(ErrorCode::InvalidRequest);
        }
        // Equal is let through here, as in Kafka; the share partition refuses it by the record's state.
        if batch.first_offset < previous_last {
            return Err(ErrorCode::InvalidRequest);
        }
        if !has_right_len(batch) {
            return Err(ErrorCode::InvalidRequest);
        }
        // Ids below zero are the highest ones without a sign. All are looked at, as that needs no branch.
        if type_max < batch.types.iter().fold(0, |max: u8, &id| max.max(id.cast_unsigned())) {
            return Err(ErrorCode::InvalidRequest);
        }
        previous_last = batch.last_offset;
    }
    Ok(())
}

/// Returns whether there is one type for all offsets, or one for each.
#[inline]
pub(crate) fn has_right_len(batch: &AcknowledgementBatch<'_>) -> bool {
    let offset_count =
        batch.last_offset.checked_sub(batch.first_offset).and_then(|count| count.checked_add(1));
    batch.types.len() == 1
        || (!batch.types.is_empty() && offset_count == i64::try_from(batch.types.len()).ok())
}
