//! Measures the server side: microseconds per handshake, and heap per idle connection. Reports; asserts no time.
//!
//! Run with `cargo run --release -p tls --example measure [rounds]`. Each figure counts the CPU time of the
//! server's calls only and is the median of batches.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../tests/support/mod.rs"]
mod support;

use aws_lc_sys as sys;
use rcgen::SignatureAlgorithm;
use std::ffi::CString;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;
use support::{Authority, ECDSA, RSA, choice, fixed};
use tls::{Acceptor, Choice, Handshake, Policy, ProtocolVersion, Read, Session, TicketKeys};

/// A bare client of the library with the groups and suites that a row asks for, which our own connector does not offer to choose.
struct Client {
    context: *mut sys::SSL_CTX,
    /// Resumed if set.
    session: *mut sys::SSL_SESSION,
}

impl Client {
    fn new(groups: &str, version: u16, suites: &str) -> Client {
        let (groups, suites) = (CString::new(groups).unwrap(), CString::new(suites).unwrap());
        // SAFETY: plain set-up calls on a fresh context.
        unsafe {
            let context = sys::SSL_CTX_new(sys::TLS_client_method());
            assert_eq!(sys::SSL_CTX_set1_groups_list(context, groups.as_ptr()), 1);
            assert_eq!(sys::SSL_CTX_set_ciphersuites(context, suites.as_ptr()), 1);
            assert_eq!(sys::SSL_CTX_set_max_proto_version(context, version), 1);
            sys::SSL_CTX_set_session_cache_mode(context, sys::SSL_SESS_CACHE_CLIENT);
            sys::SSL_CTX_sess_set_new_cb(context, Some(keep));
            Client { context, session: ptr::null_mut() }
        }
    }

    /// Runs a whole handshake against `server`, and some data behind it; returns the time spent in the server's calls of the handshake.
    fn meet(&mut self, make_server: impl FnOnce() -> Session) -> (Session, Duration) {
        // SAFETY: fresh objects; the session owns both BIOs; everything is freed at the end.
        unsafe {
            KEPT.with(|kept| kept.set(ptr::null_mut()));
            let ssl = sys::SSL_new(self.context);
            let (input, output) = (sys::BIO_new(sys::BIO_s_mem()), sys::BIO_new(sys::BIO_s_mem()));
            sys::SSL_set_bio(ssl, input, output);
            sys::SSL_set_tlsext_host_name(ssl, c"site.example".as_ptr());
            if !self.session.is_null() {
                sys::SSL_set_session(ssl, self.session);
            }
            sys::SSL_set_connect_state(ssl);

            let mut spent = Duration::ZERO;
            let begun = cpu_time();
            let mut server = make_server();
            spent += cpu_time() - begun;
            let mut from_server = Vec::new();
            let mut done = false;
            while !done || sys::SSL_in_init(ssl) == 1 {
                sys::SSL_do_handshake(ssl);
                let to_server = drain(output);
                let begun = cpu_time();
                let end = server.handshake(&mut to_server.as_slice(), &mut from_server).unwrap();
                spent += cpu_time() - begun;
                done = end == Handshake::Done;
                sys::BIO_write(input, from_server.as_ptr().cast(), from_server.len() as i32);
                from_server.clear();
            }
            sys::SSL_write(ssl, b"hello".as_ptr().cast(), 5);
            let mut plain = [0; 64];
            let read = server.read(&mut drain(output).as_slice(), &mut plain, &mut from_server).unwrap();
            assert_eq!(read, Read::Plain(5));
            let idle = server.read(&mut &[][..], &mut plain, &mut from_server).unwrap();
            assert_eq!(idle, Read::WantInput);
            // The client's reading takes in the ticket.
            server.write(b"hello", &mut from_server).unwrap();
            sys::BIO_write(input, from_server.as_ptr().cast(), from_server.len() as i32);
            assert_eq!(sys::SSL_read(ssl, plain.as_mut_ptr().cast(), 64), 5);
            sys::SSL_free(ssl);
            (server, spent)
        }
    }

    /// Makes the next handshakes resume what the last one left.
    fn resume_next(&mut self) {
        self.session = KEPT.with(std::cell::Cell::get);
        assert!(!self.session.is_null(), "a ticket came");
    }
}

thread_local!(static KEPT: std::cell::Cell<*mut sys::SSL_SESSION> = const { std::cell::Cell::new(ptr::null_mut()) });

unsafe extern "C" fn keep(_: *mut sys::SSL, session: *mut sys::SSL_SESSION) -> i32 {
    KEPT.with(|kept| kept.set(session));
    1
}

unsafe fn drain(bio: *mut sys::BIO) -> Vec<u8> {
    let (mut data, mut len) = (ptr::null(), 0);
    // SAFETY: a memory BIO; its contents are copied before it is reset.
    unsafe {
        assert_eq!(sys::BIO_mem_contents(bio, &raw mut data, &raw mut len), 1);
        let copy = if len == 0 { Vec::new() } else { std::slice::from_raw_parts(data, len).to_vec() };
        sys::BIO_reset(bio);
        copy
    }
}

/// CPU time of this thread, so that a busy machine adds little.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the time into a live struct.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

const AES_128: &str = "TLS_AES_128_GCM_SHA256";
const AES_256_FIRST: &str = "TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256";

/// Before TLS 1.3 the list must also hold the certificate's curve.
const CLASSIC: &str = "X25519:P-256";

struct Row {
    what: &'static str,
    key: &'static SignatureAlgorithm,
    groups: &'static str,
    version: u16,
    suites: &'static str,
    policy: Policy,
    resume: bool,
}

const ROW: Row = Row {
    what: "full 1.3, P-256, X25519, AES-128",
    key: ECDSA,
    groups: "X25519",
    version: 0x0304,
    suites: AES_128,
    policy: Policy::Intermediate,
    resume: false,
};

fn measure(acceptor: &Acceptor, authority: &Authority, row: &Row, rounds: usize) {
    let identity = authority.issue(row.key).identity;
    let choice = Choice { policy: row.policy, min_version: ProtocolVersion::Tls10, ..choice(&identity) };
    let chooser = fixed(choice);
    let mut client = Client::new(row.groups, row.version, row.suites);
    let meet = |client: &mut Client| client.meet(|| Session::server(acceptor, chooser.clone()).unwrap());
    meet(&mut client);
    if row.resume {
        client.resume_next();
    }
    let info = meet(&mut client).0.info();
    assert_eq!(info.resumed, row.resume);
    let mut batches: Vec<f64> = (0..9)
        .map(|_| {
            let spent: Duration = (0..rounds).map(|_| meet(&mut client).1).sum();
            spent.as_secs_f64() * 1e6 / rounds as f64
        })
        .collect();
    batches.sort_by(f64::total_cmp);
    println!("{:<46} {:7.1} us (least {:.1})  {}", row.what, batches[4], batches[0], info.cipher);
}

/// The yardstick: what the signature alone costs.
fn measure_signature(authority: &Authority, key: &'static SignatureAlgorithm, what: &str, rounds: usize) {
    let der = authority.issue(key).key;
    let mut batches: Vec<f64> = (0..9)
        .map(|_| {
            let begun = cpu_time();
            // SAFETY: a live key, contexts and buffers of the lengths given; the reader covers the key's DER. The first batch warms up.
            unsafe {
                let mut reader = sys::CBS { data: der.as_ptr(), len: der.len() };
                let key = sys::EVP_parse_private_key(&raw mut reader);
                let mut signature = [0; 512];
                for _ in 0..rounds {
                    let context = sys::EVP_MD_CTX_new();
                    let (mut padding, mut len) = (ptr::null_mut(), signature.len());
                    sys::EVP_DigestSignInit(context, &raw mut padding, sys::EVP_sha256(), ptr::null_mut(), key);
                    if what.starts_with("RSA") {
                        sys::EVP_PKEY_CTX_set_rsa_padding(padding, sys::RSA_PKCS1_PSS_PADDING);
                        sys::EVP_PKEY_CTX_set_rsa_pss_saltlen(padding, -1);
                    }
                    let message = [7u8; 130];
                    let signed = sys::EVP_DigestSign(
                        context,
                        signature.as_mut_ptr(),
                        &raw mut len,
                        message.as_ptr(),
                        message.len(),
                    );
                    assert_eq!(signed, 1);
                    sys::EVP_MD_CTX_free(context);
                }
                sys::EVP_PKEY_free(key);
            }
            (cpu_time() - begun).as_secs_f64() * 1e6 / rounds as f64
        })
        .collect();
    batches.sort_by(f64::total_cmp);
    println!("{what:<46} {:7.1} us (least {:.1})", batches[4], batches[0]);
}

fn heap() -> usize {
    // SAFETY: reads the allocator's counters.
    unsafe { libc::mallinfo2().uordblks + libc::mallinfo2().hblkhd }
}

fn footprint(what: &str, acceptor: &Acceptor, choice: Choice, version: u16) {
    const SESSIONS: usize = 10_000;
    let chooser = fixed(choice);
    let mut client = Client::new(CLASSIC, version, AES_128);
    let mut sessions = Vec::with_capacity(SESSIONS);
    sessions.push(client.meet(|| Session::server(acceptor, chooser.clone()).unwrap()).0);
    // What the client keeps (tickets) is freed before each count.
    let free_ticket = || {
        let kept = KEPT.with(|kept| kept.replace(ptr::null_mut()));
        // SAFETY: null, or a reference that `keep` took over.
        unsafe { sys::SSL_SESSION_free(kept) };
    };
    free_ticket();
    let before = heap();
    while sessions.len() < SESSIONS {
        sessions.push(client.meet(|| Session::server(acceptor, chooser.clone()).unwrap()).0);
        free_ticket();
    }
    let each = (heap() - before) as f64 / (SESSIONS - 1) as f64;
    println!("{what:<46} {each:7.0} bytes of heap, and {} of Session", size_of::<Session>());
}

fn main() {
    let rounds = std::env::args().nth(1).map_or(300, |rounds| rounds.parse().expect("a number of rounds"));
    let authority = Authority::new("root");
    let acceptor = Acceptor::new(Arc::new(TicketKeys::new(Duration::from_secs(3600)))).unwrap();
    let rows = [
        ROW,
        Row { what: "the same, resumed", resume: true, ..ROW },
        Row { what: "full 1.3, P-256, X25519, AES-256 named first", suites: AES_256_FIRST, ..ROW },
        Row { what: "full 1.3, P-256, X25519MLKEM768", groups: "X25519MLKEM768", ..ROW },
        Row { what: "full 1.3, RSA-2048, X25519", key: RSA, ..ROW },
        Row { what: "full 1.2, P-256, X25519", version: 0x0303, groups: CLASSIC, ..ROW },
        Row {
            what: "full 1.2, P-256, X25519, legacy",
            version: 0x0303,
            groups: CLASSIC,
            policy: Policy::Legacy,
            ..ROW
        },
        Row { what: "full 1.2, resumed", version: 0x0303, groups: CLASSIC, resume: true, ..ROW },
    ];
    measure_signature(&authority, ECDSA, "P-256 signature alone", rounds);
    measure_signature(&authority, RSA, "RSA-2048 signature alone", rounds);
    for row in rows {
        measure(&acceptor, &authority, &row, rounds);
    }
    let identity = authority.issue(ECDSA).identity;
    footprint("idle 1.3", &acceptor, choice(&identity), 0x0304);
    footprint("idle 1.2", &acceptor, choice(&identity), 0x0303);
}
