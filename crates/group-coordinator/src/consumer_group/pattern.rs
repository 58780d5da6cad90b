//! Regular expressions over topic names, in the syntax of RE2, which Kafka's coordinator uses.

use regex::Regex;

/// A regular expression that has to match a whole topic name.
#[derive(Clone, Debug)]
pub(super) struct TopicPattern(Regex);

impl TopicPattern {
    /// Returns the pattern, or `None` if the text is no regular expression.
    pub(super) fn compile(text: &str) -> Option<Self> {
        Regex::new(&format!("\\A(?:{})\\z", translate(text)?)).ok().map(Self)
    }

    pub(super) fn is_match(&self, name: &str) -> bool {
        self.0.is_match(name)
    }
}

/// Writes an expression of RE2 as one of the crate in use: RE2 quotes with `\Q` and `\E`, has no operations on
/// classes nor nested ones, takes a brace that starts no count as itself, and lets no count follow another. `None` if
/// it is no expression by itself, although it might be one between brackets.
fn translate(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // Whether the last thing was a count, such as `*` or `{2}`.
    let mut after_count = false;
    let mut depth = 0_usize;
    while let Some(next) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix("\\Q") {
            let (literal, after) = quoted.split_once("\\E").unwrap_or((quoted, ""));
            out.push_str(&regex::escape(literal));
            (rest, after_count) = (after, false);
            continue;
        }
        let length = match next {
            '\\' => 1 + rest.get(1..)?.chars().next()?.len_utf8(),
            '[' => class_length(rest)?,
            '{' => count_length(rest).unwrap_or(1),
            _ => next.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        let is_count = matches!(next, '*' | '+' | '?') || (next == '{' && 1 < length);
        if is_count && (after_count || !is_count_allowed(token)) {
            return None;
        }
        match next {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        match next {
            '[' => out.push_str(&class(token)),
            '{' if length == 1 => out.push_str("\\{"),
            '}' => out.push_str("\\}"),
            _ => out.push_str(token),
        }
        rest = after;
        after_count = is_count;
        if is_count && let Some(lazy) = rest.strip_prefix('?') {
            out.push('?');
            rest = lazy;
        }
    }
    (depth == 0).then_some(out)
}

/// Returns whether RE2 takes this count, such as `{2,5}` or `*`: it counts to a thousand.
fn is_count_allowed(count: &str) -> bool {
    const COUNT_MAX: u32 = 1_000;
    let numbers = count.split(|letter: char| !letter.is_ascii_digit()).filter(|digits| !digits.is_empty());
    numbers.map(str::parse::<u32>).all(|number| number.is_ok_and(|number| number <= COUNT_MAX))
}

/// Returns how long a count in braces is, such as `{2,5}`; `None` if it is none.
fn count_length(text: &str) -> Option<usize> {
    let inside = &text[1..text.find('}')?];
    let (low, high) = inside.split_once(',').unwrap_or((inside, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(low) && (high.is_empty() || is_number(high))).then_some(inside.len() + 2)
}

/// Returns how long a class is, such as `[^]a-z]`; `None` if it does not end.
fn class_length(text: &str) -> Option<usize> {
    let mut at = 1;
    if text[at..].starts_with('^') {
        at += 1;
    }
    let mut is_first = true;
    loop {
        let rest = &text[at..];
        let next = rest.chars().next()?;
        match next {
            ']' if !is_first => return Some(at + 1),
            '[' if rest.starts_with("[:") && rest.contains(":]") => at += rest.find(":]")? + 2,
            '\\' => at += 1 + rest.get(1..)?.chars().next()?.len_utf8(),
            _ => at += next.len_utf8(),
        }
        is_first = false;
    }
}

/// Writes a class so that nothing in it has a meaning that it lacks in RE2.
fn class(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = &text[1..text.len() - 1];
    out.push('[');
    if let Some(negated) = rest.strip_prefix('^') {
        out.push('^');
        rest = negated;
    }
    let mut is_first = true;
    while let Some(next) = rest.chars().next() {
        let named = rest.starts_with("[:").then(|| rest.find(":]")).flatten();
        let length = match next {
            '[' if named.is_some() => named.unwrap_or(0) + 2,
            '\\' => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            _ => next.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        let needs_escape =
            (next == '[' && named.is_none()) || matches!(next, '&' | '~') || (next == ']' && is_first);
        if needs_escape {
            out.push('\\');
        }
        out.push_str(token);
        rest = after;
        is_first = false;
    }
    out.push(']');
    out
}

#[cfg(test)]
mod tests;
