use super::*;

#[test]
fn memory_is_done_with_a_flush_at_once() {
    let mut memory = Memory::default();
    for number in [1, 2, 7] {
        memory.append(Flush { number, writes: Vec::new() }).unwrap();
        assert_eq!(memory.durable(), number);
    }
    let mut stored = Vec::new();
    memory.list(&mut stored).unwrap();
    assert!(stored.is_empty());
    memory.truncate(2).unwrap();
    assert_eq!(memory.durable(), 2);
}
