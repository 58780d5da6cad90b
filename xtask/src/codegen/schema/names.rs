//! From the schemas' names to Rust's.

/// Words that cannot be names of fields.
const KEYWORDS: [&str; 6] = ["type", "match", "ref", "move", "final", "use"];

/// Turns `MaxWaitMs` into `max_wait_ms`.
pub(in crate::codegen) fn snake_case(name: &str) -> String {
    let characters: Vec<char> = name.chars().collect();
    let mut snake = String::with_capacity(name.len() + 8);
    for (at, &character) in characters.iter().enumerate() {
        if character.is_ascii_uppercase() && 0 < at {
            let after_lower = !characters[at - 1].is_ascii_uppercase();
            let before_lower = characters.get(at + 1).is_some_and(char::is_ascii_lowercase);
            if after_lower || before_lower {
                snake.push('_');
            }
        }
        snake.push(character.to_ascii_lowercase());
    }
    if KEYWORDS.contains(&snake.as_str()) { format!("r#{snake}") } else { snake }
}
