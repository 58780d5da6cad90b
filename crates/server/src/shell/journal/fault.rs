//! How a fault is laid out.

use sharemark_protocol::{ApiKey, DecodeError, ErrorCode, NodeId, Reader, Writer};

use super::layout::{read_number, read_text, write_number, write_text};
use crate::broker::{Fault, FaultAction, FaultPoint};

/// Stands for what is not said.
const NONE: i8 = 0;
const SOME: i8 = 1;

pub(super) fn write(fault: &Fault, out: &mut Writer) {
    write_text(fault.at.name(), out);
    let (action, number) = match fault.action {
        FaultAction::Error(error) => (1, error.code().into()),
        FaultAction::Hold => (2, 0),
        FaultAction::Drop => (3, 0),
        FaultAction::Repeat => (4, 0),
        FaultAction::Disconnect => (5, 0),
        FaultAction::Delay(ms) => (6, ms),
    };
    out.write_i8(action);
    out.write_i64(number);
    write_option(fault.count, out, write_number);
    write_number(fault.apis.len() as u64, out);
    for api in &fault.apis {
        out.write_i16(api.to_wire());
    }
    for number in [fault.from.map(NodeId::get), fault.to.map(NodeId::get), fault.node.map(NodeId::get)] {
        write_option(number, out, |number, out| out.write_i32(number));
    }
    write_option(fault.partition, out, |partition, out| out.write_i32(partition));
    for text in [&fault.topic, &fault.group, &fault.transactional_id] {
        write_option(text.as_deref(), out, write_text);
    }
}

pub(super) fn read(reader: &mut Reader<'_>) -> Result<Fault, DecodeError> {
    let at = FaultPoint::from_name(&read_text(reader)?).ok_or(DecodeError::UnexpectedRecordType)?;
    let action = match (reader.read_i8()?, reader.read_i64()?) {
        (1, code) => FaultAction::Error(error_of(code)?),
        (2, _) => FaultAction::Hold,
        (3, _) => FaultAction::Drop,
        (4, _) => FaultAction::Repeat,
        (5, _) => FaultAction::Disconnect,
        (6, ms) => FaultAction::Delay(ms),
        _ => return Err(DecodeError::UnexpectedRecordType),
    };
    let mut fault = Fault::new(at, action);
    fault.count = read_option(reader, read_number)?;
    for _ in 0..read_number(reader)? {
        let api = ApiKey::from_wire(reader.read_i16()?).ok_or(DecodeError::UnknownApi)?;
        fault.apis.push(api);
    }
    let node = |reader: &mut Reader<'_>| Ok(read_option(reader, Reader::read_i32)?.map(NodeId::new));
    (fault.from, fault.to, fault.node) = (node(reader)?, node(reader)?, node(reader)?);
    fault.partition = read_option(reader, Reader::read_i32)?;
    fault.topic = read_option(reader, read_text)?;
    fault.group = read_option(reader, read_text)?;
    fault.transactional_id = read_option(reader, read_text)?;
    Ok(fault)
}

fn error_of(code: i64) -> Result<ErrorCode, DecodeError> {
    let error = i16::try_from(code).ok().and_then(ErrorCode::from_code);
    error.ok_or(DecodeError::UnexpectedRecordType)
}

fn write_option<T>(value: Option<T>, out: &mut Writer, write: impl FnOnce(T, &mut Writer)) {
    match value {
        Some(value) => {
            out.write_i8(SOME);
            write(value, out);
        }
        None => out.write_i8(NONE),
    }
}

fn read_option<'a, T>(
    reader: &mut Reader<'a>,
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<Option<T>, DecodeError> {
    match reader.read_i8()? {
        NONE => Ok(None),
        _ => read(reader).map(Some),
    }
}
