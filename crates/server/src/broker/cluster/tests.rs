use super::*;

fn placed(racks: &[&[i32]], turns: usize, replica_count: usize) -> Vec<Vec<i32>> {
    let racks: Vec<Vec<NodeId>> =
        racks.iter().map(|nodes| nodes.iter().copied().map(NodeId::new).collect()).collect();
    (0..turns)
        .map(|turn| place_one(&racks, turn, replica_count).into_iter().map(NodeId::get).collect())
        .collect()
}

#[test]
fn without_racks_followers_come_after_their_leader() {
    let expected = [[0, 1], [1, 2], [2, 0], [0, 1]];
    assert_eq!(placed(&[&[0, 1, 2]], 4, 2), expected);
}

#[test]
fn replicas_are_in_as_many_racks_as_there_are() {
    let expected = [[0, 2], [2, 0], [1, 3], [3, 1]];
    assert_eq!(placed(&[&[0, 1], &[2, 3]], 4, 2), expected);
}

#[test]
fn a_small_rack_lends_no_node_twice() {
    let expected = [[0, 1, 2], [1, 0, 2], [0, 2, 1]];
    assert_eq!(placed(&[&[0], &[1, 2]], 3, 3), expected);
    assert_eq!(placed(&[&[0], &[1, 2]], 1, 9), [[0, 1, 2]]);
}
