//! The program as olsrv2d meets it: over its socket, killed and started again.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use icv::{Answer, Claim, Frames, Request};
use rfc5444::iana::message::TC;
use rfc5444::Message;

/// RFC 8410, section 10.3.
const KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
    MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
    -----END PRIVATE KEY-----\n";
const ORIGINATOR: &str = "10.77.0.1";
const PATIENCE: Duration = Duration::from_secs(20);

/// The program with a directory of its own. It is killed when it is dropped.
struct Program {
    directory: PathBuf,
    process: Option<Child>,
}

impl Program {
    fn started(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("program-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("key"), KEY).unwrap();
        fs::set_permissions(directory.join("key"), fs::Permissions::from_mode(0o600)).unwrap();
        let mut program = Self {
            directory,
            process: None,
        };
        program.start();
        program
    }

    fn start(&mut self) {
        let path = |name: &str| self.directory.join(name);
        let process = Command::new(env!("CARGO_BIN_EXE_olsrv2-signer"))
            .arg("--key")
            .arg(path("key"))
            .arg("--counter")
            .arg(path("counter"))
            .arg("--socket")
            .arg(path("sock"))
            .stderr(Stdio::null())
            .spawn();
        self.process = Some(process.unwrap());
    }

    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    fn connect(&self) -> UnixStream {
        let start = Instant::now();
        loop {
            match UnixStream::connect(self.directory.join("sock")) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(PATIENCE)).unwrap();
                    return stream;
                }
                Err(error) => assert!(start.elapsed() < PATIENCE, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn request() -> Vec<u8> {
    let message = Message::new(TC, ORIGINATOR.parse().unwrap());
    let message = message.encode().unwrap();
    let request = Request {
        floor: None,
        message: &message,
    };
    request.frame()
}

/// What was signed: the counter and the message.
type Signed = (u64, Vec<u8>);

/// Reads an answer; `None` for a refusal.
fn answer(stream: &mut UnixStream) -> Option<Signed> {
    let mut frames = Frames::default();
    loop {
        let mut octet = [0];
        stream.read_exact(&mut octet).unwrap();
        frames.push(&octet);
        if let Some(frame) = frames.next_frame().unwrap() {
            return Answer::read(&frame).map(|answer| (answer.counter, answer.signed.to_vec()));
        }
    }
}

fn sign(stream: &mut UnixStream) -> Option<Signed> {
    stream.write_all(&request()).unwrap();
    answer(stream)
}

#[test]
fn the_counter_rises_over_kills() {
    let mut program = Program::started("kills");
    let mut last = 0;
    for _ in 0..5 {
        let mut stream = program.connect();
        for _ in 0..3 {
            let (counter, signed) = sign(&mut stream).unwrap();
            assert!(counter > last, "{counter} after {last}");
            last = counter;
            let message = Message::decode(&signed).unwrap();
            let claim = Claim::read(&message.tlvs).unwrap().unwrap();
            let originator = ORIGINATOR.parse().unwrap();
            assert_eq!(claim.counter, counter);
            claim.verify(originator, &signed).unwrap();
        }
        program.kill();
        program.start();
    }
}

#[test]
fn garbage_is_refused_and_the_next_request_is_answered() {
    let program = Program::started("garbage");
    let mut stream = program.connect();
    for frame in [&[0; 4][..], &[0, 0, 0, 3, 1, 2, 3]] {
        stream.write_all(frame).unwrap();
        assert_eq!(answer(&mut stream), None);
    }
    assert!(sign(&mut stream).is_some());
    stream.write_all(&[0xff; 4]).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    assert!(sign(&mut program.connect()).is_some());
}

#[test]
fn many_requests_at_once_and_one_in_pieces_are_answered_in_order() {
    let program = Program::started("pieces");
    let mut stream = program.connect();
    stream.write_all(&request().repeat(100)).unwrap();
    let counters: Vec<u64> = (0..100).map(|_| answer(&mut stream).unwrap().0).collect();
    assert!(counters.is_sorted());
    for octet in request() {
        stream.write_all(&[octet]).unwrap();
    }
    assert!(answer(&mut stream).unwrap().0 > counters[99]);
}

/// Whether the signer has ended a connection.
fn is_over(stream: &mut UnixStream) -> bool {
    let end = stream.read(&mut [0; 1]).map_err(|error| error.kind());
    matches!(end, Ok(0) | Err(ErrorKind::ConnectionReset))
}

#[test]
fn a_third_client_takes_the_place_of_whom_was_not_served_last() {
    let program = Program::started("latest");
    let [mut first, mut second] = [program.connect(), program.connect()];
    assert!(sign(&mut second).is_some());
    assert!(sign(&mut first).is_some());
    let mut third = program.connect();
    assert!(sign(&mut third).is_some());
    assert!(is_over(&mut second));
    assert!(sign(&mut first).is_some());
}

#[test]
fn who_connects_and_asks_nothing_interrupts_nobody() {
    let program = Program::started("silent");
    let mut router = program.connect();
    assert!(sign(&mut router).is_some());
    let mut silent: Vec<UnixStream> = (0..100).map(|_| program.connect()).collect();
    assert!(sign(&mut router).is_some());
    assert!(is_over(&mut silent[0]), "one place is for all of them");
    drop(silent);
    assert!(sign(&mut router).is_some());
}

#[test]
fn a_client_that_reads_nothing_is_left() {
    let program = Program::started("deaf");
    let mut deaf = program.connect();
    deaf.set_write_timeout(Some(PATIENCE)).unwrap();
    let octets = [0; 4096];
    let end = (0..4096).find_map(|_| deaf.write_all(&octets).err());
    let end = end.expect("16 MiB of requests were taken").kind();
    // A timeout would mean that the signer holds on to the connection.
    assert!(
        matches!(end, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset),
        "{end:?}"
    );
    assert!(sign(&mut program.connect()).is_some());
}

#[test]
fn a_disk_that_cannot_be_written_gives_refusals_and_later_signatures() {
    let program = Program::started("disk");
    let obstacle = program.directory.join("counter.new");
    fs::create_dir(&obstacle).unwrap();
    let mut stream = program.connect();
    assert_eq!(sign(&mut stream), None);
    fs::remove_dir(obstacle).unwrap();
    assert!(sign(&mut stream).is_some());
}

#[test]
fn only_the_account_and_its_group_may_connect() {
    let program = Program::started("mode");
    drop(program.connect());
    let mode = |name: &str| {
        let metadata = fs::metadata(program.directory.join(name)).unwrap();
        metadata.permissions().mode() & 0o777
    };
    assert_eq!(mode("sock"), 0o660);
    sign(&mut program.connect()).unwrap();
    assert_eq!(mode("counter"), 0o600);
}
