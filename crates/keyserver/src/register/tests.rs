//! The register in a folder of its own: what its files let whom do. Opens no connection.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use std::os::unix::fs::PermissionsExt;

use super::*;

const SECRET: [u8; 32] = [7; 32];

fn register() -> (tempfile::TempDir, Register) {
    let dir = tempfile::tempdir().unwrap();
    let register = Register::at(&dir.path().join("enrolment"));
    register.make_folders().unwrap();
    (dir, register)
}

fn grant(names: &str, uses: u32) -> Grant {
    Grant { names: Names::parse(names).unwrap(), ends: seconds(SystemTime::now()) + 900, uses }
}

fn enrolled(register: &Register, name: &str) -> EnrolmentId {
    let now = SystemTime::now();
    register.open_token(&SECRET, &grant(name, 1), now).unwrap();
    let id = register.redeem(&SECRET, name, now).unwrap();
    register.note_issued(name, id, now + Duration::from_secs(60), true).unwrap();
    id
}

#[test]
fn a_token_is_used_once_for_its_name_in_its_time() {
    let (_dir, register) = register();
    let now = SystemTime::now();
    register.open_token(&SECRET, &grant("edge.example", 1), now).unwrap();
    for (secret, name, at, expected) in [
        ([8; 32], "edge.example", now, "no such token"),
        (SECRET, "other.example", now, "is for edge.example"),
        (SECRET, "edge.example", now, ""),
        (SECRET, "edge.example", now, "no such token"),
    ] {
        let outcome = register.redeem(&secret, name, at).err().unwrap_or_default();
        assert!(outcome.contains(expected) && outcome.is_empty() == expected.is_empty(), "{outcome}");
    }
    // Another process, or the same one after it was killed, has it no more either.
    assert!(Register::at(&register.folder).redeem(&SECRET, "edge.example", now).is_err());
    register.open_token(&SECRET, &grant("edge.example", 1), now).unwrap();
    let late = register.redeem(&SECRET, "edge.example", now + Duration::from_secs(901)).unwrap_err();
    assert!(late.contains("has ended"), "{late}");
    assert!(register.open_tokens().unwrap().is_empty(), "what has ended is removed");
}

#[test]
fn what_is_on_the_disk_does_not_help_a_thief_and_is_nobody_else_s() {
    let (_dir, register) = register();
    register.open_token(&SECRET, &grant("edge.example", 1), SystemTime::now()).unwrap();
    register.authority().unwrap();
    let name = listed(&register.folder.join("tokens")).unwrap().remove(0);
    assert_eq!(name, hexadecimal(&digest::sha256(&SECRET)));
    let content = text(&register.folder.join("tokens").join(&name)).unwrap();
    assert!(!content.contains(&hexadecimal(&SECRET)), "{content}");
    for path in [register.token(&SECRET), register.folder.join("authority.key"), register.folder.clone()] {
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o077, 0, "{}", path.display());
    }
    let key = register.folder.join("authority.key");
    fs::set_permissions(&key, PermissionsExt::from_mode(0o640)).unwrap();
    assert!(register.authority().unwrap_err().contains("chmod 600"));
}

#[test]
fn a_token_for_many_takes_no_name_that_is_somebody_s() {
    let (_dir, register) = register();
    let now = SystemTime::now();
    let id = enrolled(&register, "a.edges.example");
    register.open_token(&SECRET, &grant("*.edges.example", 2), now).unwrap();
    for (name, expected) in [
        ("edges.example", "is for *.edges.example"),
        ("a.edges.example", "is enrolled"),
        ("b.edges.example", ""),
        ("c.edges.example", ""),
        ("d.edges.example", "no such token"),
    ] {
        let outcome = register.redeem(&SECRET, name, now).err().unwrap_or_default();
        assert!(outcome.contains(expected) && outcome.is_empty() == expected.is_empty(), "{name}: {outcome}");
    }
    register.revoke("a.edges.example").unwrap();
    register.open_token(&SECRET, &grant("*.edges.example", 1), now).unwrap();
    let outcome = register.redeem(&SECRET, "a.edges.example", now + Duration::from_secs(120)).unwrap_err();
    assert!(outcome.contains("was revoked"), "{outcome}");
    assert_eq!(register.revoked().unwrap(), HashSet::from([id]));
}

#[test]
fn who_is_revoked_or_replaced_gets_nothing_more() {
    let (_dir, register) = register();
    let ends = SystemTime::now() + Duration::from_secs(60);
    let first = enrolled(&register, "edge.example");
    register.note_issued("edge.example", first, ends, false).unwrap();
    let second = enrolled(&register, "edge.example");
    assert!(first != second && register.note_issued("edge.example", first, ends, false).is_err());
    assert_eq!(register.revoked().unwrap(), HashSet::from([first]));
    register.revoke("edge.example").unwrap();
    assert!(register.note_issued("edge.example", second, ends, false).is_err());
    assert_eq!(register.revoked().unwrap(), HashSet::from([first, second]));
    assert!(register.nodes().unwrap()[0].1.is_revoked);
    // A token for its name alone takes it up again, as another enrolment.
    let third = enrolled(&register, "edge.example");
    assert!(!register.revoked().unwrap().contains(&third));
    for name in ["stranger.example", "../tokens", ""] {
        assert!(register.revoke(name).unwrap_err().contains("no node"), "{name}");
    }
}

#[test]
fn one_use_is_one_whoever_is_faster() {
    let (_dir, register) = register();
    let now = SystemTime::now();
    register.open_token(&SECRET, &grant("*.edges.example", 5), now).unwrap();
    let redeemed: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|thread| {
                let register = &register;
                scope.spawn(move || {
                    (0..4)
                        .filter(|one| register.redeem(&SECRET, &format!("n{thread}-{one}.edges.example"), now).is_ok())
                        .count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(redeemed, 5);
}

#[test]
fn what_is_not_as_it_was_written_is_read_as_nothing() {
    let good = write_node(&Node { id: [0x41; 8], ends: 7, is_revoked: false });
    assert!(read_node(&good).is_some());
    for other in [good.trim_end().to_owned(), format!("{good}x\n"), good.replace("ends", "end"), String::new()] {
        assert_eq!(read_node(&other), None, "{other:?}");
    }
    for other in [
        "names *\nends 1\nuses 1\n",
        "names a/b\nends 1\nuses 1\n",
        "names a\nends 1\nuses 0\n",
        "names a\nends -1\nuses 1\n",
    ] {
        assert_eq!(read_grant(other), None, "{other:?}");
    }
    let (_dir, register) = register();
    fs::write(register.token(&SECRET), "anything").unwrap();
    assert!(register.redeem(&SECRET, "edge.example", SystemTime::now()).unwrap_err().contains("damaged"));
    fs::write(register.revocations().join("x"), "").unwrap();
    assert!(register.revoked().is_err(), "then nobody's certificate may be accepted");
}
