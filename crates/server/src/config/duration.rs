//! Durations in ISO-8601 form, such as `P1DT2H30M0.5S`.

/// Reads a duration of days, hours, minutes and seconds into milliseconds; `None` if it is none.
pub(super) fn parse_duration_ms(text: &str) -> Option<i64> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let text = text.strip_prefix(['P', 'p'])?;
    let (date, time) = match text.split_once(['T', 't']) {
        Some((_, "")) => return None,
        Some((date, time)) => (date, time),
        None => (text, ""),
    };
    if date.is_empty() && time.is_empty() {
        return None;
    }
    let days = parse_units(date, &[('D', 86_400_000)])?;
    let rest = parse_units(time, &[('H', 3_600_000), ('M', 60_000), ('S', 1_000)])?;
    let total = days.checked_add(rest)?;
    if negative { total.checked_neg() } else { Some(total) }
}

/// Adds up numbers that are each followed by one of `units`, in their order, each at most once.
fn parse_units(mut text: &str, units: &[(char, i64)]) -> Option<i64> {
    let mut total = 0_i64;
    for (unit, ms) in units {
        let Some(end) = text.find([*unit, unit.to_ascii_lowercase()]) else { continue };
        let (number, rest) = text.split_at(end);
        total = total.checked_add(parse_number_ms(number, *ms, *unit == 'S')?)?;
        text = &rest[1..];
    }
    text.is_empty().then_some(total)
}

fn parse_number_ms(number: &str, unit_ms: i64, fraction_allowed: bool) -> Option<i64> {
    let Some((whole, fraction)) = number.split_once(['.', ',']) else {
        return number.parse::<i64>().ok()?.checked_mul(unit_ms);
    };
    let digits_only = fraction.bytes().all(|byte| byte.is_ascii_digit());
    if !fraction_allowed || 9 < fraction.len() || !digits_only {
        return None;
    }
    let sign = if whole.starts_with('-') { -1 } else { 1 };
    let whole_ms = whole.parse::<i64>().ok()?.checked_mul(unit_ms)?;
    let thousandths: i64 = format!("{fraction:0<3}")[..3].parse().ok()?;
    whole_ms.checked_add(sign * thousandths)
}

#[cfg(test)]
mod tests {
    use super::parse_duration_ms;

    #[test]
    fn durations() {
        let cases = [
            ("PT1H", Some(3_600_000)),
            ("P1DT2H3M4.5S", Some(93_784_500)),
            ("P2D", Some(172_800_000)),
            ("PT0S", Some(0)),
            ("-PT1S", Some(-1_000)),
            ("PT-1.25S", Some(-1_250)),
            ("pt1m", Some(60_000)),
            ("PT", None),
            ("P", None),
            ("P1M", None),
            ("PT1M1H", None),
            ("PT1.5H", None),
            ("PT1", None),
            ("1H", None),
            ("PT9223372036854775807H", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_duration_ms(text), expected, "{text}");
        }
    }
}
