//! The connections that are open at a time.

use std::os::unix::net::UnixStream;

use daemonkit::Time;

use crate::client::Client;
use crate::key::Key;

/// One for the router, and one for a program that asks the kernel which process listens (SO_PEERCRED, unix(7)).
pub const PLACES: usize = 2;

/// The connections, each in its place.
#[derive(Default)]
pub struct Clients {
    places: [Option<Client>; PLACES],
    /// The place of the client that was served last.
    last: usize,
}

impl Clients {
    /// Takes a non-blocking connection in. Where no place is free it replaces one that was not served last.
    pub fn admit(&mut self, stream: UnixStream) -> (usize, &Client) {
        let free = self.places.iter().position(Option::is_none);
        let place = free.unwrap_or((self.last + 1) % PLACES);
        (place, self.places[place].insert(Client::new(stream)))
    }

    /// Answers what has arrived in a place, and frees it at the connection's end.
    pub fn serve(&mut self, place: usize, now: Time, key: &mut Key) {
        let client = self.places[place].as_mut();
        if client.is_some_and(|client| client.serve(now, key)) {
            self.last = place;
        } else {
            self.places[place] = None;
        }
    }
}
