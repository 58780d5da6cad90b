//! The format of Java's `.properties` files.

use std::fmt;

/// A line that cannot be read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PropertiesError {
    /// Its number, counted from 1.
    pub line: usize,
}

impl fmt::Display for PropertiesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: a backslash-u needs four hexadecimal digits", self.line)
    }
}

impl std::error::Error for PropertiesError {}

/// Reads the text of a properties file: its pairs in order, the later of two equal keys last.
///
/// # Errors
///
/// If a Unicode escape is malformed.
pub fn parse_properties(text: &str) -> Result<Vec<(String, String)>, PropertiesError> {
    let mut pairs = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let line = line.trim_start_matches(BLANKS);
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let mut logical = line.to_owned();
        while ends_with_open_backslash(&logical) {
            logical.pop();
            let Some((_, next)) = lines.next() else { break };
            logical.push_str(next.trim_start_matches(BLANKS));
        }
        let (key, value) = split_pair(&logical);
        let error = PropertiesError { line: index + 1 };
        let key = unescape(key).ok_or_else(|| error.clone())?;
        let value = unescape(value).ok_or(error)?;
        pairs.push((key, value));
    }
    Ok(pairs)
}

const BLANKS: [char; 3] = [' ', '\t', '\u{c}'];

fn ends_with_open_backslash(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// Splits at the first separator that no backslash protects: `=`, `:` or blanks, with blanks around it.
fn split_pair(line: &str) -> (&str, &str) {
    let mut protected = false;
    let end = line.find(|character: char| {
        let is_end = !protected && (character == '=' || character == ':' || BLANKS.contains(&character));
        protected = character == '\\' && !protected;
        is_end
    });
    let Some(end) = end else { return (line, "") };
    let (key, rest) = line.split_at(end);
    let rest = rest.trim_start_matches(BLANKS);
    let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (key, rest.trim_start_matches(BLANKS))
}

fn unescape(text: &str) -> Option<String> {
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut characters = text.chars();
    let mut buffer = [0; 2];
    while let Some(character) = characters.next() {
        if character != '\\' {
            units.extend_from_slice(character.encode_utf16(&mut buffer));
            continue;
        }
        match characters.next() {
            Some('u') => {
                let digits: String = characters.by_ref().take(4).collect();
                if digits.len() != 4 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                    return None;
                }
                units.push(u16::from_str_radix(&digits, 16).ok()?);
            }
            Some('t') => units.push(u16::from(b'\t')),
            Some('n') => units.push(u16::from(b'\n')),
            Some('r') => units.push(u16::from(b'\r')),
            Some('f') => units.push(0x0c),
            Some(other) => units.extend_from_slice(other.encode_utf16(&mut buffer)),
            None => {}
        }
    }
    Some(String::from_utf16_lossy(&units))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_as_java_reads_them() {
        let text = "# a comment\n! another\n\n  a = 1\nb:2\nc 3\nd\ne=\\u0041\\u00e9\\n\\q\nf = one, \\\n    two\n\
                    g\\ h\\=i = x\\\\\nj==k  \na=4\nl=\\uD83D\\uDE00\n";
        let pairs = parse_properties(text).unwrap();
        let expected = [
            ("a", "1"),
            ("b", "2"),
            ("c", "3"),
            ("d", ""),
            ("e", "Aé\nq"),
            ("f", "one, two"),
            ("g h=i", "x\\"),
            ("j", "=k  "),
            ("a", "4"),
            ("l", "😀"),
        ];
        let expected: Vec<_> = expected.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        assert_eq!(pairs, expected);
    }

    #[test]
    fn a_malformed_escape_names_its_line() {
        assert_eq!(parse_properties("a=1\nb=\\u00g0"), Err(PropertiesError { line: 2 }));
    }
}
