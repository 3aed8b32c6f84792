//! The program itself, running on the loopback interface without a TUN device, and those who want it ill.

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use cryptoauth::{Credential, Local, PrivateKey, PublicKey, Session, HEAD_ROOM, TAIL_ROOM};
use overlay::{Content, SessionLimits, Sessions, SESSION_HEAD_ROOM};
use pkcs8::{AlgorithmIdentifierRef, LineEnding, ObjectIdentifier, PrivateKeyInfo, SecretDocument};
use rand_core::{OsRng, TryRngCore};
use serde_json::Value;
use switch::{control_frame, Control, Header, Label};

/// What a test waits for comes at once, or on a machine that stands still a while later.
const PATIENCE: Duration = Duration::from_secs(240);
/// How long something that was sent may be on its way before it is sent again.
const AGAIN: Duration = Duration::from_millis(300);

pub const LOGIN: &[u8] = b"ali baba";
pub const PASSWORD: &[u8] = b"open sesame";
/// A frame from a neighbour to the router, as it is on the link.
pub const NEIGHBOUR: Label = Label(1 << 63 | 1);
/// The same, from farther away.
pub const AFAR: Label = Label(1 << 62 | 1);

/// A running daemon; it ends with the test.
pub struct Daemon {
    process: Child,
    directory: PathBuf,
    control: BufReader<UnixStream>,
    pub status: Value,
}

impl Daemon {
    /// Starts it with these interfaces.
    pub fn start(interfaces: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("overlayd-hostile-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).unwrap();
        let (key, socket, config) = (
            directory.join("node.key"),
            directory.join("control.sock"),
            directory.join("overlayd.toml"),
        );
        write_secret(&key, &new_key());
        let text = format!(
            "key = {key:?}\npermit = []\n[tun]\nname = \"off\"\n[control]\nsocket = {socket:?}\n\
             [admin]\nbind = \"127.0.0.1:0\"\npassword = \"close sesame\"\n\
             [[user]]\nname = \"ali baba\"\npassword = \"open sesame\"\n{interfaces}"
        );
        write_secret(&config, &text);
        let mut process = Command::new(env!("CARGO_BIN_EXE_overlayd"))
            .args(["--log-level", "error", "--config"])
            .arg(&config)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let control = wait("the control socket", || {
            assert_eq!(process.try_wait().unwrap(), None, "it has ended");
            UnixStream::connect(&socket).ok()
        });
        control.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut daemon = Self {
            process,
            directory,
            control: BufReader::new(control),
            status: Value::Null,
        };
        daemon.ask();
        daemon
    }

    /// How it stands now.
    pub fn ask(&mut self) -> &Value {
        self.control.get_mut().write_all(b"status\n").unwrap();
        // The first connection sends a status by itself, and events come between.
        loop {
            let mut line = String::new();
            assert_ne!(
                self.control.read_line(&mut line).unwrap(),
                0,
                "it has ended"
            );
            let report: Value = serde_json::from_str(&line).unwrap();
            if report["type"] == "status" {
                self.status = report;
                return &self.status;
            }
        }
    }

    pub fn key(&self) -> PublicKey {
        self.status["key"].as_str().unwrap().parse().unwrap()
    }

    /// Where an interface listens.
    pub fn address(&self, interface: usize) -> SocketAddr {
        let name = self.status["interfaces"][interface]["name"].as_str();
        name.unwrap().strip_prefix("udp ").unwrap().parse().unwrap()
    }

    /// Where the admin API listens.
    pub fn admin(&self) -> SocketAddr {
        self.status["admin"]["bind"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap()
    }

    /// A counter of the status, by its way through it; what is not report yet is 0.
    pub fn count(&mut self, pointer: &str) -> u64 {
        self.ask()
            .pointer(pointer)
            .map_or(0, |count| count.as_u64().unwrap())
    }

    /// Does something, again if need be, until a counter has grown by it.
    pub fn await_count(&mut self, pointer: &str, mut act: impl FnMut()) {
        let (before, deadline) = (self.count(pointer), Instant::now() + PATIENCE);
        loop {
            act();
            let again = Instant::now() + AGAIN;
            while Instant::now() < again {
                if self.count(pointer) > before {
                    return;
                }
            }
            assert!(Instant::now() < deadline, "{pointer}: {}", self.status);
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Awaits what comes at once, or a while later.
pub fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

fn write_secret(path: &Path, text: &str) {
    let mut options = std::fs::OpenOptions::new();
    let file = options.create_new(true).write(true).mode(0o600).open(path);
    file.unwrap().write_all(text.as_bytes()).unwrap();
}

/// A node's key, as `meshsec init` writes it.
fn new_key() -> String {
    let seed = loop {
        let seed = random();
        let key = PrivateKey::from_ed25519_seed(&seed).public();
        if key.node_address().is_ok() {
            break seed;
        }
    };
    let octets = [&[0x04, 0x20][..], &seed].concat();
    let algorithm = AlgorithmIdentifierRef {
        oid: ObjectIdentifier::new_unwrap("1.3.101.112"),
        parameters: None,
    };
    let document = SecretDocument::encode_msg(&PrivateKeyInfo::new(algorithm, &octets)).unwrap();
    document
        .to_pem("PRIVATE KEY", LineEnding::LF)
        .unwrap()
        .to_string()
}

fn random() -> [u8; 32] {
    let mut octets = [0; 32];
    OsRng.try_fill_bytes(&mut octets).unwrap();
    octets
}

/// A key of a node, and where it is.
pub struct Stranger {
    pub socket: UdpSocket,
    pub local: Local,
    pub to: SocketAddr,
    pub key: PublicKey,
    began: Instant,
}

impl Stranger {
    /// Somebody at an address of the loopback interface that nobody else has.
    pub fn new(to: SocketAddr, key: PublicKey) -> Self {
        static HOST: AtomicU32 = AtomicU32::new(1);
        let host = Ipv4Addr::from(0x7f01_0000 + HOST.fetch_add(1, Ordering::Relaxed));
        Self::at((IpAddr::V4(host), 0).into(), to, key)
    }

    /// Somebody at an address.
    pub fn at(address: SocketAddr, to: SocketAddr, key: PublicKey) -> Self {
        let socket = UdpSocket::bind(address).unwrap();
        socket.set_nonblocking(true).unwrap();
        let local = loop {
            let private = PrivateKey::from_octets(random());
            if private.public().node_address().is_ok() {
                break Local::new(private);
            }
        };
        Self {
            socket,
            local,
            to,
            key,
            began: Instant::now(),
        }
    }

    /// A key of nobody.
    pub fn any_key() -> PublicKey {
        PrivateKey::from_octets(random()).public()
    }

    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    pub fn send(&self, octets: &[u8]) {
        self.socket.send_to(octets, self.to).unwrap();
    }

    /// What has come for it.
    pub fn receive(&self) -> Option<Vec<u8>> {
        let mut space = [0; 4096];
        let length = self.socket.recv(&mut space).ok()?;
        Some(space[..length].to_vec())
    }

    pub fn session(&self, credential: Option<Credential>) -> Session {
        Session::new(&self.local, self.key, credential, false, self.now()).unwrap()
    }

    /// A HELLO that carries something.
    pub fn hello(&self, credential: Option<Credential>, content: &[u8]) -> Vec<u8> {
        self.seal(&mut self.session(credential), content)
    }

    pub fn seal(&self, session: &mut Session, content: &[u8]) -> Vec<u8> {
        let (mut space, range) = spacious(content, HEAD_ROOM);
        let rng = &mut OsRng.unwrap_err();
        let frame = session.seal(&self.local, self.now(), rng, &mut space, range);
        space[frame.unwrap()].to_vec()
    }
}

/// Somebody who has become a neighbour, and now misbehaves.
pub struct Neighbour {
    pub stranger: Stranger,
    link: Session,
    inner: Sessions,
}

impl Neighbour {
    /// Connects as one who may.
    pub fn connect(stranger: Stranger) -> Self {
        let link = stranger.session(Some(credential()));
        let inner = Sessions::new(SessionLimits::default());
        let mut neighbour = Self {
            stranger,
            link,
            inner,
        };
        let mut again = Instant::now();
        wait("the link", || {
            if Instant::now() >= again {
                neighbour.send(&ping(NEIGHBOUR, switch::PROTOCOL_VERSION));
                again = Instant::now() + AGAIN;
            }
            neighbour.listen();
            neighbour.link.is_established().then_some(())
        });
        neighbour
    }

    /// Sends a frame of the switch.
    pub fn send(&mut self, frame: &[u8]) {
        let sealed = self.stranger.seal(&mut self.link, frame);
        self.stranger.send(&sealed);
    }

    /// The same, twice.
    pub fn send_twice(&mut self, frame: &[u8]) {
        let sealed = self.stranger.seal(&mut self.link, frame);
        self.stranger.send(&sealed);
        self.stranger.send(&sealed);
    }

    /// Takes what has come: handshakes, and whether it is still there, which it affirms.
    pub fn listen(&mut self) {
        while let Some(mut octets) = self.stranger.receive() {
            let (local, now) = (&self.stranger.local, self.stranger.now());
            let Ok(opened) = self.link.open(local, now, &mut octets) else {
                continue;
            };
            let frame = &mut octets[opened.content];
            if let Some(pong) = pong(frame) {
                self.send(&pong);
            } else {
                let _ = self.inner.open(local, now, &mut OsRng.unwrap_err(), frame);
            }
        }
    }

    /// A frame with something in an inner session.
    pub fn inner(&mut self, content: Content, payload: &[u8]) -> Vec<u8> {
        let (mut space, range) = spacious(payload, SESSION_HEAD_ROOM);
        let (local, now, rng) = (
            &self.stranger.local,
            self.stranger.now(),
            &mut OsRng.unwrap_err(),
        );
        let to = (self.stranger.key, NEIGHBOUR);
        let sealed = self
            .inner
            .seal(local, now, rng, to, content, &mut space, range);
        space[sealed.unwrap()].to_vec()
    }

    /// Sends something in an inner session.
    pub fn send_inner(&mut self, content: Content, payload: &[u8]) {
        let sealed = self.inner(content, payload);
        self.send(&sealed);
    }

    /// Makes an inner session that both have confirmed.
    pub fn begin_session(&mut self) {
        let mut again = Instant::now();
        let query = dht(
            switch::PROTOCOL_VERSION,
            overlay::Body::Query(overlay::Query::Ping),
        );
        wait("the inner session", || {
            if Instant::now() >= again {
                let frame = self.inner(Content::Dht, &query);
                self.send(&frame);
                again = Instant::now() + AGAIN;
            }
            self.listen();
            let mut sessions = self.inner.iter();
            sessions.any(|session| session.ready).then_some(())
        });
    }
}

pub fn credential() -> Credential {
    Credential::login(LOGIN, PASSWORD)
}

/// Octets with room around them.
fn spacious(octets: &[u8], room: usize) -> (Vec<u8>, Range<usize>) {
    let space = [&vec![0; room][..], octets, &[0; TAIL_ROOM]].concat();
    (space, room..room + octets.len())
}

/// A frame of the switch.
pub fn frame(label: Label, shift: u8, content: &[u8]) -> Vec<u8> {
    let header = Header {
        shift,
        ..Header::new(label)
    };
    [&header.encode()[..], content].concat()
}

/// A control frame.
pub fn control(label: Label, control: &Control) -> Vec<u8> {
    let mut out = [0; 512];
    let length = control_frame(control, label, &mut out).unwrap();
    out[..length].to_vec()
}

/// The answer to a neighbour's PING.
fn pong(frame: &[u8]) -> Option<Vec<u8>> {
    let (_, content) = Header::decode(frame).ok()?;
    let octets = content.strip_prefix(&[0xff; 4])?;
    match Control::decode(octets).ok()? {
        Control::Ping { version, opaque } => {
            Some(control(NEIGHBOUR, &Control::Pong { version, opaque }))
        }
        _ => None,
    }
}

pub fn ping(label: Label, version: u32) -> Vec<u8> {
    control(
        label,
        &Control::Ping {
            version,
            opaque: b"ping",
        },
    )
}

/// A DHT message.
pub fn dht(version: u32, body: overlay::Body) -> Vec<u8> {
    let message = overlay::Message {
        version,
        scheme: switch::Scheme::V3X5X8,
        form: 0,
        txid: overlay::Txid::new(&[7; 8]).unwrap(),
        body,
    };
    message.encode()
}
