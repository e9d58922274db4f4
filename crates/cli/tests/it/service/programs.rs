//! Others' programs: whether they are there, and running them, also where nothing that they leave behind can last.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

use super::PATIENCE;

/// Says that a test is skipped.
pub fn skip(test: &str, why: &str) {
    // Past the harness's capture, so that the count of what was skipped sees it.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {why}");
}

/// Returns true if these programs are there. If one is not, the test reports that it is skipped.
pub fn have(test: &str, programs: &[&str]) -> bool {
    // Not all of them know the option; those that are there can be begun.
    let begun = |program: &&&str| Command::new(program).arg("--version").stdin(Stdio::null()).output().is_err();
    let missing = programs.iter().find(begun);
    if let Some(program) = missing {
        skip(test, &format!("no {program}"));
    }
    missing.is_none()
}

/// Runs a program to its end.
pub fn end(program: &str, args: &[&str]) -> Output {
    Command::new(program).args(args).stdin(Stdio::null()).output().expect("it can be run")
}

/// Runs a program to its end, which has to be a good one; gives what it printed.
pub fn run(program: &str, args: &[&str]) -> String {
    let output = end(program, args);
    assert!(output.status.success(), "{program} {args:?}: {}\n{}", output.status, said(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// All that a program said.
pub fn said(output: &Output) -> String {
    let texts = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    texts.join("\n").trim().to_owned()
}

/// A program that runs until it is dropped, or ends itself.
pub struct Daemon {
    child: Child,
    log: PathBuf,
}

impl Daemon {
    /// Begins to run it; what it says goes to `log`.
    pub fn start(program: &str, args: &[&str], log: &Path) -> Self {
        let file = std::fs::File::create(log).expect("a file");
        let also = file.try_clone().expect("a file");
        let child = Command::new(program).args(args).stdin(Stdio::null()).stdout(also).stderr(file).spawn();
        Self { child: child.expect("it can be run"), log: log.to_owned() }
    }

    /// Waits until this is so; what the program has said if it ended before.
    pub fn until(&mut self, so: impl Fn() -> bool) -> Result<(), String> {
        let begin = Instant::now();
        while !so() {
            let ended = self.child.try_wait().expect("it can be waited for");
            if ended.is_some() || begin.elapsed() >= PATIENCE {
                return Err(std::fs::read_to_string(&self.log).unwrap_or_default().trim().to_owned());
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        Ok(())
    }

    /// Has it killed, which may take a while.
    pub fn cut(&mut self) {
        // One that has ended of itself is as good.
        drop(self.child.kill());
    }

    /// Kills it, and waits for its end.
    pub fn kill(&mut self) {
        self.cut();
        self.child.wait().expect("it can be waited for");
    }

    /// Asks it to end, and waits for that.
    pub fn terminate(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        // One that has ended of itself is as good.
        let _ended = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        self.child.wait().expect("it can be waited for");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs a test that is otherwise ignored by itself, in namespaces of its own: whatever becomes of it or of this
/// process, the system ends the programs that it began, and takes away mounts and with them loop devices. `inner` is its
/// whole path, with the crate's name.
pub fn apart(test: &str, inner: &str) {
    const APART: [&str; 6] = ["--mount", "--propagation=private", "--pid", "--fork", "--kill-child", "--mount-proc"];
    if !have(test, &["unshare"]) {
        return;
    }
    let may = end("unshare", &[&APART[..], &["true"]].concat());
    if !may.status.success() {
        return skip(test, &format!("no namespaces of its own (root?): {}", said(&may)));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new("unshare")
        .args(APART)
        .arg(std::env::current_exe().expect("this test"))
        .args([inner.split_once("::").map_or(inner, |(_, name)| name), "--exact", "--ignored", "--nocapture"])
        .env("TMPDIR", folder.path())
        .stdin(Stdio::null())
        .output()
        .expect("it can be run");
    let text = said(&output);
    let skipped = text.lines().filter_map(|line| line.split_once("SKIPPED: "));
    for (_, line) in skipped {
        let _ = writeln!(std::io::stderr(), "SKIPPED: {line}");
    }
    assert!(output.status.success() && text.contains("1 passed"), "{inner}: {}\n{text}", output.status);
    if std::env::var_os("DESTAGE_SOAK").is_some() {
        println!("{text}");
    }
}
