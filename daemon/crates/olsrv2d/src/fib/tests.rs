use super::*;
use rustix::io::Errno;

const SETTINGS: RouteSettings = RouteSettings {
    table: 254,
    protocol: 100,
    metric: 2,
    network_metric: 32768,
};
const NOW: Time = Time::from_secs(100);

/// A routing table that refuses what Linux refuses and records each step.
#[derive(Default)]
struct Table {
    routes: Vec<Route>,
    refuse: Option<Errno>,
    without_route: bool,
}

/// Whether Linux takes two routes of one destination for the same: in IPv6 the source makes no difference.
fn same(one: &Route, other: &Route) -> bool {
    let sourceless = |route: &Route| Route {
        path: Path {
            source: None,
            ..route.path
        },
        ..*route
    };
    let is_v6 = one.destination.addr.is_ipv6();
    one == other || is_v6 && sourceless(one) == sourceless(other)
}

impl Table {
    fn paths(&self, key: Prefix) -> Vec<Path> {
        self.routes
            .iter()
            .filter(|route| route.destination == key)
            .map(|route| route.path)
            .collect()
    }
}

impl Kernel for Table {
    fn add(&mut self, route: &Route, mode: AddMode) -> io::Result<()> {
        if let Some(errno) = self.refuse {
            return Err(errno.into());
        }
        let place = self
            .routes
            .iter()
            .position(|other| other.destination == route.destination);
        match (mode, place) {
            (AddMode::Exclusive, Some(_)) => return Err(Errno::EXIST.into()),
            (AddMode::Append, Some(_)) if self.routes.iter().any(|other| same(other, route)) => {
                return Err(Errno::EXIST.into())
            }
            (AddMode::Replace, Some(place)) => self.routes[place] = *route,
            _ => self.routes.push(*route),
        }
        Ok(())
    }

    fn delete(&mut self, route: &Route) -> io::Result<()> {
        let place = self
            .routes
            .iter()
            .position(|other| same(other, route))
            .ok_or(Errno::SRCH)?;
        self.routes.remove(place);
        self.without_route |= self.paths(route.destination).is_empty();
        Ok(())
    }

    fn list(&mut self, settings: RouteSettings) -> io::Result<Vec<Route>> {
        Ok(self
            .routes
            .iter()
            .filter(|route| route.protocol == settings.protocol)
            .copied()
            .collect())
    }
}

fn key() -> Prefix {
    "10.0.0.3/32".parse().unwrap()
}

fn path(last: u8) -> Path {
    Path {
        next_hop: Some([10, 0, 0, last].into()),
        interface: 7,
        source: None,
    }
}

fn route(protocol: u8, path: Path) -> Route {
    Route {
        destination: key(),
        table: 254,
        protocol,
        metric: 2,
        path,
    }
}

fn fib(kernel: &mut Table) -> Fib {
    Fib::open(kernel, SETTINGS, NOW + Duration::from_secs(9)).unwrap()
}

#[test]
fn a_better_path_is_added_before_the_old_one_goes() {
    let mut kernel = Table::default();
    let mut fib = fib(&mut kernel);
    assert!(fib.set(&mut kernel, NOW, key(), path(1)));
    assert!(fib.set(&mut kernel, NOW, key(), path(2)));
    assert_eq!(kernel.paths(key()), [path(2)]);
    assert!(!kernel.without_route);
    fib.remove(&mut kernel, NOW, key());
    assert!(kernel.routes.is_empty());
}

#[test]
fn a_path_with_another_source_takes_the_place_of_the_old_one() {
    let key: Prefix = "fd00::9/128".parse().unwrap();
    let from = |source: &str| Path {
        source: Some(source.parse().unwrap()),
        ..path(1)
    };
    let mut kernel = Table::default();
    let mut fib = fib(&mut kernel);
    assert!(fib.set(&mut kernel, NOW, key, from("fd00::1")));
    assert!(fib.set(&mut kernel, NOW, key, from("fd00::2")));
    assert_eq!(kernel.paths(key), [from("fd00::2")]);
}

#[test]
fn a_deleted_route_is_restored_once_a_second_at_most() {
    let mut kernel = Table::default();
    let mut fib = fib(&mut kernel);
    fib.set(&mut kernel, NOW, key(), path(1));
    for attempt in 0..3_u32 {
        let lost = kernel.routes.remove(0);
        let start = NOW + AUDIT_INTERVAL * attempt;
        fib.observe(start, &[lost], false);
        let due = fib.poll_timeout().unwrap();
        assert_eq!(due, start + AUDIT_DELAY);
        fib.handle_timeout(&mut kernel, due);
        assert_eq!(kernel.paths(key()), [path(1)]);
        fib.observe(due, &[lost], false);
        assert_eq!(fib.poll_timeout(), Some(due + AUDIT_INTERVAL));
    }
    assert_eq!(fib.repaired(), 3);
}

#[test]
fn a_route_that_replaced_ours_is_replaced_and_one_that_stood_before_is_not() {
    let mut kernel = Table {
        routes: vec![route(3, path(9))],
        ..Table::default()
    };
    let mut fib = fib(&mut kernel);
    assert!(!fib.set(&mut kernel, NOW, key(), path(1)));
    assert_eq!(kernel.routes, [route(3, path(9))]);

    kernel.routes.clear();
    fib.observe(NOW, &[route(3, path(9))], false);
    assert_eq!(fib.handle_timeout(&mut kernel, NOW + AUDIT_DELAY), [key()]);
    kernel.routes = vec![route(3, path(9))];
    let later = NOW + 2 * AUDIT_INTERVAL;
    fib.observe(later, &kernel.routes.clone(), true);
    fib.handle_timeout(&mut kernel, later + AUDIT_DELAY);
    assert_eq!(kernel.routes, [route(100, path(1))]);
}

#[test]
fn a_predecessors_equal_route_is_adopted_and_the_others_go_when_settled() {
    let other = Route {
        destination: "fd00::9/128".parse().unwrap(),
        ..route(100, path(1))
    };
    let mut kernel = Table {
        routes: vec![route(100, path(1)), other],
        ..Table::default()
    };
    let mut fib = fib(&mut kernel);
    assert!(fib.set(&mut kernel, NOW, key(), path(1)));
    assert_eq!(kernel.routes.len(), 2);
    let settled = fib.poll_timeout().unwrap();
    fib.handle_timeout(&mut kernel, settled);
    assert_eq!(kernel.routes, [route(100, path(1))]);
    assert!(!kernel.without_route || kernel.paths(key()) == [path(1)]);
}

#[test]
fn a_refusal_is_retried_with_growing_pauses_and_told_when_it_ends() {
    let mut kernel = Table {
        refuse: Some(Errno::INVAL),
        ..Table::default()
    };
    let mut fib = fib(&mut kernel);
    fib.handle_timeout(&mut kernel, NOW + Duration::from_secs(9));
    let mut now = NOW + Duration::from_secs(10);
    assert!(!fib.set(&mut kernel, now, key(), path(1)));
    let mut pauses = Vec::new();
    for _ in 0..7 {
        let due = fib.poll_timeout().unwrap();
        pauses.push((due - now).as_secs());
        now = due;
        assert!(fib.handle_timeout(&mut kernel, now).is_empty());
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 32]);
    assert_eq!(fib.failed(), 1);
    kernel.refuse = None;
    assert_eq!(
        fib.handle_timeout(&mut kernel, now + RETRY_INTERVAL_MAX),
        [key()]
    );
    assert_eq!((fib.failed(), fib.repaired()), (0, 0));
}

#[test]
fn after_an_interface_went_its_route_is_installed_anew() {
    let mut kernel = Table::default();
    let mut fib = fib(&mut kernel);
    fib.set(&mut kernel, NOW, key(), path(1));
    kernel.routes.clear();
    fib.forget_interface(NOW, 7);
    assert!(!fib.is_installed(&key()));
    assert!(fib.set(&mut kernel, NOW, key(), path(1)));
    assert_eq!(kernel.paths(key()), [path(1)]);
}

#[test]
fn a_network_stands_behind_whatever_else_leads_there() {
    let network: Prefix = "0.0.0.0/0".parse().unwrap();
    let mut kernel = Table::default();
    let mut fib = fib(&mut kernel);
    fib.set(&mut kernel, NOW, network, path(1));
    fib.set(&mut kernel, NOW, key(), path(1));
    let metrics: Vec<_> = kernel.routes.iter().map(|route| route.metric).collect();
    assert_eq!(metrics, [32768, 2]);
    fib.clear(&mut kernel, NOW);
    assert!(kernel.routes.is_empty(), "both are ours");
}

#[test]
fn the_end_leaves_foreign_routes_alone() {
    let foreign = Route {
        destination: "10.9.0.0/16".parse().unwrap(),
        ..route(3, path(9))
    };
    let mut kernel = Table {
        routes: vec![foreign],
        ..Table::default()
    };
    let mut fib = fib(&mut kernel);
    fib.set(&mut kernel, NOW, key(), path(1));
    fib.clear(&mut kernel, NOW);
    assert_eq!(kernel.routes, [foreign]);
}
