//! SillyProxy's keystore mode: puts one certificate chain and its key into the Java keystore, in the form that SillyProxy reads.
//!
//! Asks only at a terminal; elsewhere an empty host name means `default` and an existing entry is replaced. The keystore's form, the checks of
//! the pair and the atomic write are those of crate `keystore`.

use std::io::{IsTerminal as _, Write as _};

use keystore::edit::{AddOptions, EditError, NewPair, add};
use keystore::inspect::inspect;
use keystore::{Location, Password};

use super::arguments::Arguments;
use crate::Front;

/// The alias that serves clients without a name of their own.
const DEFAULT: &str = "default";

/// Someone who can be asked.
pub(super) trait Person {
    /// Whether the response begins with `y`.
    fn agrees(&mut self, question: &str) -> bool;
    /// A password typed without being shown.
    fn password(&mut self, prompt: &str) -> Option<Password>;
}

/// Who sits at the terminal.
struct Terminal;

impl Person for Terminal {
    fn agrees(&mut self, question: &str) -> bool {
        eprint!("{question} [y/N] ");
        let _ = std::io::stderr().flush();
        let mut response = String::new();
        // The end of the input, too, is a no.
        std::io::stdin().read_line(&mut response).is_ok() && response.starts_with(['y', 'Y'])
    }

    fn password(&mut self, prompt: &str) -> Option<Password> {
        rpassword::prompt_password(prompt).ok().map(Password::new)
    }
}

/// Does what the arguments ask, with questions only at a terminal.
pub(super) fn run(arguments: &Arguments) -> Front {
    let mut terminal = Terminal;
    let at_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    put(arguments, at_terminal.then_some(&mut terminal as &mut dyn Person))
}

/// Does what the arguments ask; `person` is whom to ask, if anyone.
pub(super) fn put(arguments: &Arguments, mut person: Option<&mut dyn Person>) -> Front {
    match try_to_put(arguments, &mut person) {
        Ok((done, notes)) => Front::Exit { code: 0, output: format!("{done}\n"), errors: lines(&notes) },
        Err(problems) => Front::Exit { code: 1, output: String::new(), errors: lines(&problems) },
    }
}

fn lines(texts: &[String]) -> String {
    texts.iter().map(|text| format!("portunus: {text}\n")).collect()
}

type Done = (String, Vec<String>);

fn try_to_put(arguments: &Arguments, person: &mut Option<&mut dyn Person>) -> Result<Done, Vec<String>> {
    let needed =
        [("-keystore", &arguments.keystore), ("-pemCert", &arguments.pem_cert), ("-pemKey", &arguments.pem_key)];
    let missing = needed.iter().filter(|(_, path)| path.as_os_str().is_empty());
    let missing: Vec<String> = missing.map(|(flag, _)| format!("{flag} FILE is missing")).collect();
    if !missing.is_empty() {
        return Err(missing);
    }
    let pair = NewPair::read(&arguments.pem_cert, &arguments.pem_key, None).map_err(|error| error.problems)?;
    let password = password(arguments, person)?;
    let location = Location::Jks(arguments.keystore.clone());
    let (name, mut notes) = name(arguments, &location, &password, person)?;
    let put = |overwrite| add(&location, Some(&password), &name, &pair, AddOptions { overwrite, sillyproxy: true });
    let added = match put(false) {
        Err(EditError::Exists(what)) => {
            let replace = person.as_mut().is_none_or(|person| person.agrees(&format!("{what}. Replace it?")));
            if replace { put(true) } else { return Err(vec!["nothing was changed".to_string()]) }
        }
        other => other,
    };
    match added {
        Ok(warnings) => {
            notes.extend(warnings);
            let key_type = format!("{:?}", pair.key_type()).to_uppercase();
            Ok((format!("{}: {name}:{key_type} is there", arguments.keystore.display()), notes))
        }
        Err(error) => Err(error.to_string().lines().map(str::to_string).collect()),
    }
}

fn password(arguments: &Arguments, person: &mut Option<&mut dyn Person>) -> Result<Password, Vec<String>> {
    if let Some(file) = &arguments.keypass_file {
        let secret = config::Secret::File(file.clone());
        return secret.read().map_err(|problem| vec![problem]);
    }
    if !arguments.keypass.is_empty() {
        return Ok(arguments.keypass.clone());
    }
    let asked = person.as_mut().and_then(|person| person.password("Password of the keystore: "));
    asked.ok_or_else(|| vec!["no password: give -keypass-file FILE (or -keypass PASSWORD)".to_string()])
}

/// The name to put the pair under, and what should be known about it.
fn name(
    arguments: &Arguments,
    location: &Location,
    password: &Password,
    person: &mut Option<&mut dyn Person>,
) -> Result<(String, Vec<String>), Vec<String>> {
    if arguments.hostname.is_empty() {
        let agreed =
            person.as_mut().is_none_or(|person| person.agrees("No -hostname. Put it in as the default certificate?"));
        return if agreed {
            Ok((DEFAULT.to_string(), Vec::new()))
        } else {
            Err(vec!["nothing was changed; give -hostname NAME".to_string()])
        };
    }
    let name = arguments.hostname.clone();
    let has_default = || {
        let pairs = inspect(location, Some(password)).pairs;
        pairs.iter().any(|pair| pair.names.iter().any(|name| name == DEFAULT))
    };
    if name.eq_ignore_ascii_case(DEFAULT) || arguments.keystore.exists() && has_default() {
        return Ok((name, Vec::new()));
    }
    let question = format!(
        "The keystore has no default certificate, and nothing starts without one. Put this in as `default` instead of `{name}`?"
    );
    if person.as_mut().is_some_and(|person| person.agrees(&question)) {
        return Ok((DEFAULT.to_string(), Vec::new()));
    }
    Ok((name, vec!["the keystore has no default certificate yet, and nothing starts without one: add one with `-hostname default`".to_string()]))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::*;

    /// Answers every question alike, and remembers them.
    struct Always {
        yes: bool,
        questions: Vec<String>,
    }

    impl Person for Always {
        fn agrees(&mut self, question: &str) -> bool {
            self.questions.push(question.to_string());
            self.yes
        }

        fn password(&mut self, _: &str) -> Option<Password> {
            Some(Password::new("typed-in".to_string()))
        }
    }

    /// A folder with pairs of PEM files for `a.test` (`a.crt`, `a.key`) and `b.test`.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            let pair = rcgen::generate_simple_self_signed([format!("{name}.test")]).unwrap();
            std::fs::write(folder.path().join(format!("{name}.crt")), pair.cert.pem()).unwrap();
            std::fs::write(folder.path().join(format!("{name}.key")), pair.signing_key.serialize_pem()).unwrap();
        }
        folder
    }

    fn arguments(folder: &Path, hostname: &str, certificate: &str, key: &str) -> Arguments {
        Arguments {
            keystore: folder.join("store.jks"),
            keypass: Password::new("opensesame".to_string()),
            hostname: hostname.to_string(),
            pem_cert: folder.join(certificate),
            pem_key: folder.join(key),
            ..Arguments::default()
        }
    }

    /// Puts a pair in and compares the exit code; gives what was said on both streams.
    fn check(arguments: &Arguments, person: Option<&mut Always>, expected: u8) -> String {
        match put(arguments, person.map(|person| person as &mut dyn Person)) {
            Front::Exit { code, output, errors } => {
                assert_eq!(code, expected, "{output}{errors}");
                output + &errors
            }
            other => panic!("{other:?}"),
        }
    }

    /// The names in the store with the fingerprints of their certificates.
    fn content(folder: &Path, password: &str) -> Vec<(String, [u8; 32])> {
        let password = Password::new(password.to_string());
        let inspection = inspect(&Location::Jks(folder.join("store.jks")), Some(&password));
        assert_eq!(inspection.problems, Vec::<String>::new());
        let mut content: Vec<_> = inspection
            .pairs
            .iter()
            .flat_map(|pair| pair.names.iter().map(|name| (name.clone(), pair.fingerprint)))
            .collect();
        content.sort();
        content
    }

    fn names(folder: &Path) -> Vec<String> {
        content(folder, "opensesame").into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn elsewhere_than_at_a_terminal_nothing_is_asked() {
        let folder = folder();
        let said = check(&arguments(folder.path(), "a.test", "a.crt", "a.key"), None, 0);
        assert!(said.contains("a.test:ECDSA") && said.contains("no default certificate"), "{said}");
        check(&arguments(folder.path(), "", "a.crt", "a.key"), None, 0);
        assert_eq!(names(folder.path()), ["a.test", "default"]);
        let before = content(folder.path(), "opensesame");
        let said = check(&arguments(folder.path(), "default", "b.crt", "b.key"), None, 0);
        assert!(!said.contains("no default certificate"), "{said}");
        let after = content(folder.path(), "opensesame");
        assert_eq!(before[0], after[0], "the other entry must stay");
        assert_ne!(before[1], after[1], "the entry must be replaced");
        let mode = std::fs::metadata(folder.path().join("store.jks")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn the_store_is_in_the_form_that_sillyproxy_reads() {
        let folder = folder();
        check(&arguments(folder.path(), "default", "a.crt", "a.key"), None, 0);
        let store = keystore::jks::parse(&std::fs::read(folder.path().join("store.jks")).unwrap()).unwrap();
        let aliases: Vec<String> = store.entries.iter().map(keystore::jks::Entry::alias).collect();
        assert_eq!(aliases, ["default:ECDSA"]);
    }

    #[test]
    fn at_a_terminal_it_asks() {
        let folder = folder();
        let mut nobody = Always { yes: false, questions: Vec::new() };
        check(&arguments(folder.path(), "", "a.crt", "a.key"), Some(&mut nobody), 1);
        assert!(nobody.questions[0].contains("default") && !folder.path().join("store.jks").exists());
        // Rather as `default`? No: under its name, with a warning.
        check(&arguments(folder.path(), "a.test", "a.crt", "a.key"), Some(&mut nobody), 0);
        assert_eq!(names(folder.path()), ["a.test"]);
        let before = content(folder.path(), "opensesame");
        check(&arguments(folder.path(), "a.test", "a.crt", "a.key"), Some(&mut nobody), 1);
        assert_eq!(content(folder.path(), "opensesame"), before);
        // Rather as `default`? Yes.
        let mut friend = Always { yes: true, questions: Vec::new() };
        check(&arguments(folder.path(), "b.test", "b.crt", "b.key"), Some(&mut friend), 0);
        assert_eq!(names(folder.path()), ["a.test", "default"]);
        check(&arguments(folder.path(), "default", "a.crt", "a.key"), Some(&mut friend), 0);
        assert_eq!(friend.questions.len(), 2, "{:?}", friend.questions);
        assert_ne!(content(folder.path(), "opensesame"), before);
        let unnamed = Arguments { keypass: Password::default(), ..arguments(folder.path(), "x", "a.crt", "a.key") };
        let typed = Arguments { keystore: folder.path().join("new").join("store.jks"), ..unnamed };
        std::fs::create_dir(folder.path().join("new")).unwrap();
        check(&typed, Some(&mut friend), 0);
        assert_eq!(content(&folder.path().join("new"), "typed-in").len(), 1);
    }

    #[test]
    fn a_problem_changes_nothing() {
        let folder = folder();
        check(&arguments(folder.path(), "default", "a.crt", "a.key"), None, 0);
        let before = std::fs::read(folder.path().join("store.jks")).unwrap();
        let base = || arguments(folder.path(), "a.test", "a.crt", "a.key");
        for (arguments, expected) in [
            (Arguments { pem_key: folder.path().join("b.key"), ..base() }, "b.key"),
            (Arguments { pem_cert: folder.path().join("none.crt"), ..base() }, "none.crt"),
            (Arguments { keypass: Password::new("wrong-one".to_string()), ..base() }, "password"),
            (Arguments { keypass: Password::default(), ..base() }, "no password"),
            (Arguments { keypass_file: Some(folder.path().join("none.pass")), ..base() }, "none.pass"),
            (Arguments { hostname: "not a name".to_string(), ..base() }, "not a name"),
            (
                Arguments { pem_key: Default::default(), keystore: Default::default(), ..base() },
                "-keystore FILE is missing",
            ),
            (Arguments { pem_key: Default::default(), ..base() }, "-pemKey FILE is missing"),
        ] {
            let said = check(&arguments, None, 1);
            assert!(said.contains(expected), "{said} says nothing of {expected}");
            assert!(!said.contains("opensesame") && !said.contains("wrong-one"), "{said}");
            assert_eq!(std::fs::read(folder.path().join("store.jks")).unwrap(), before, "{said}");
        }
        let short =
            Arguments { keystore: folder.path().join("n.jks"), keypass: Password::new("12345".to_string()), ..base() };
        check(&short, None, 1);
        assert!(!folder.path().join("n.jks").exists());
    }
}
