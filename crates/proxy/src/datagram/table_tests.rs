//! The order and the bounds of the flow table, by example and against a plain list that is scanned.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

fn key(client: u8, port: u16) -> Key {
    let client = SocketAddr::from(([203, 0, 113, client], port));
    Key { client: Some(client), balancer: SocketAddr::from(([192, 0, 2, 1], 9)), local: None, destination: None }
}

fn address(client: u8) -> IpAddr {
    IpAddr::from([203, 0, 113, client])
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn table(flows: &[(u8, u16)]) -> (Table<u16>, Vec<FlowId>) {
    let mut table = Table::new();
    let insert = |(time, (client, port)): (usize, &(u8, u16))| {
        table.insert(key(*client, *port), address(*client), at(time as u64), *port).unwrap()
    };
    let ids = flows.iter().enumerate().map(insert).collect();
    (table, ids)
}

#[test]
fn the_longest_idle_goes_first_and_exactly_then() {
    let (mut table, ids) = table(&[(1, 1), (2, 1), (3, 1)]);
    assert_eq!(table.longest_idle(), Some((ids[0], at(0))));
    table.moved(ids[0], at(10), false);
    assert_eq!(table.longest_idle(), Some((ids[1], at(1))));
    table.moved(ids[1], at(11), true);
    assert_eq!(table.longest_idle(), Some((ids[2], at(2))));
    assert_eq!(table.remove(ids[2]), Some(1));
    assert_eq!(table.longest_idle(), Some((ids[0], at(10))));
    table.remove(ids[0]);
    assert_eq!(table.longest_idle(), Some((ids[1], at(11))));
    table.remove(ids[1]);
    assert_eq!((table.longest_idle(), table.len()), (None, 0));
}

#[test]
fn a_flood_without_responses_spares_flows_with_responses() {
    let (mut table, ids) = table(&[(1, 1), (2, 1), (3, 1)]);
    table.moved(ids[0], at(3), true);
    // The answered one is by now the longest idle of all.
    table.moved(ids[1], at(50), false);
    table.moved(ids[2], at(51), false);
    assert_eq!(table.in_the_way(address(9), 4, 8), None);
    assert_eq!(table.in_the_way(address(9), 3, 8), Some(ids[1]));
    table.remove(ids[1]);
    table.remove(ids[2]);
    assert_eq!(table.in_the_way(address(9), 1, 8), Some(ids[0]));
}

#[test]
fn a_client_at_its_bound_pushes_out_its_own() {
    let (mut table, ids) = table(&[(7, 1), (1, 1), (1, 2), (1, 3)]);
    table.moved(ids[1], at(9), true);
    assert_eq!(table.in_the_way(address(1), 100, 3), Some(ids[2]));
    assert_eq!(table.in_the_way(address(7), 100, 3), None);
    assert_eq!(table.in_the_way(address(8), 100, 3), None);
}

#[test]
fn a_name_is_never_given_out_twice() {
    let (mut table, ids) = table(&[(1, 1)]);
    assert_eq!(table.find(&key(1, 1)), Some(ids[0]));
    table.remove(ids[0]);
    assert_eq!(table.find(&key(1, 1)), None);
    let again = table.insert(key(1, 1), address(1), at(1), 5).unwrap();
    assert_ne!(again, ids[0]);
    assert_eq!((table.get(ids[0]), table.get(again)), (None, Some(&5)));
    table.moved(ids[0], at(5), true);
    assert_eq!(table.remove(ids[0]), None);
    assert_eq!(FlowId::from_bits(again.to_bits()), again);
    assert_eq!(table.insert(key(1, 1), address(1), at(1), 6), None);
}

/// What should be there of a flow: name, client, time moved, answered.
type Known = (FlowId, u8, Duration, bool);

/// A plain list of it.
type Model = Vec<Known>;

fn expected_in_the_way(model: &Model, client: u8, most: usize, most_per_client: usize) -> Option<FlowId> {
    let oldest = |keep: &dyn Fn(&Known) -> bool| {
        model.iter().filter(|flow| keep(flow)).min_by_key(|flow| flow.2).map(|flow| flow.0)
    };
    if model.iter().filter(|flow| flow.1 == client).count() >= most_per_client {
        return oldest(&|flow| flow.1 == client);
    }
    if model.len() < most {
        return None;
    }
    oldest(&|flow| !flow.3).or_else(|| oldest(&|_| true))
}

#[test]
fn it_agrees_with_a_list_that_is_scanned() {
    let mut random = fastrand::Rng::with_seed(42);
    let (mut table, mut model) = (Table::<u16>::new(), Model::new());
    for step in 0..20_000_u64 {
        // Times differ, so that the order is one.
        let now = Duration::from_micros(step);
        let client = random.u8(..6);
        match random.u8(..10) {
            0..4 => {
                let (key, blocking) = (key(client, random.u16(..30)), table.in_the_way(address(client), 40, 12));
                assert_eq!(blocking, expected_in_the_way(&model, client, 40, 12));
                if let Some(id) = blocking {
                    table.remove(id).unwrap();
                    model.retain(|flow| flow.0 != id);
                }
                if let Some(id) = table.insert(key, address(client), now, 0) {
                    assert_eq!(table.find(&key), Some(id));
                    model.push((id, client, now, false));
                }
            }
            4..8 if !model.is_empty() => {
                let (chosen, answered) = (random.usize(..model.len()), random.bool());
                let flow = &mut model[chosen];
                (flow.2, flow.3) = (now, flow.3 | answered);
                table.moved(flow.0, now, answered);
            }
            8 if !model.is_empty() => {
                let (id, ..) = model.swap_remove(random.usize(..model.len()));
                table.remove(id).unwrap();
            }
            _ => {}
        }
        let oldest = model.iter().min_by_key(|flow| flow.2).map(|flow| (flow.0, flow.2));
        assert_eq!((table.longest_idle(), table.len()), (oldest, model.len()));
    }
}
