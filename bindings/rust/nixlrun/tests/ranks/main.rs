// SPDX-License-Identifier: Apache-2.0
//! Tests with real ranks: each test starts itself under nixlrun, which `NIXLRUN` names.
use nixlrun::{Job, Result};
use std::env;
use std::process::{Command, Output};

mod awaits;
mod drops;
mod files;
mod life;
mod memory;
mod notes;
mod objects;
mod teams;
mod transfers;
mod words;

const VARIABLE: &str = "RANKS_TEST";

/// One test of `n` ranks: the body is run by each of them, and the job is left in order, so that
/// no handle may be left over.
#[macro_export]
macro_rules! ranks {
    ($name:ident, $n:expr, |$job:ident| $body:block) => {
        #[test]
        fn $name() {
            let name = concat!(module_path!(), "::", stringify!($name));
            let body = |$job: &nixlrun::Job| -> nixlrun::Result<()> {
                $body;
                Ok(())
            };

            $crate::run_ranks($n, name, body);
        }
    };
}

pub fn run_ranks(n: usize, name: &str, body: impl FnOnce(&Job) -> Result<()>) {
    if is_rank(name) {
        return be_rank(body);
    }
    let output = start(n, name, &[]);
    assert!(output.status.success(), "{}", text(&output));
}

/// The same of a test in which one rank is killed, and all others go on to their end.
pub fn run_survivors(n: usize, name: &str, body: impl FnOnce(&Job) -> Result<()>) {
    if is_rank(name) {
        return be_rank(body);
    }
    let output = start(n, name, &["--on-failure", "continue"]);
    let ended_well = text(&output).matches("test result: ok").count();
    assert_eq!((output.status.code(), ended_well), (Some(137), n - 1), "{}", text(&output));
}

fn be_rank(body: impl FnOnce(&Job) -> Result<()>) {
    let job = Job::join().expect("nixl_init");

    body(&job).unwrap_or_else(|error| panic!("rank {}: {error:?}", job.rank()));
    job.leave().expect("nixl_finalize");
}

/// Whether this process is a rank of that test.
pub fn is_rank(name: &str) -> bool {
    env::var(VARIABLE).map_or(false, |test| test == name)
}

/// Run the test's ranks, and have what they have written.
pub fn start(n: usize, name: &str, options: &[&str]) -> Output {
    let nixlrun = env::var("NIXLRUN").unwrap_or_else(|_| "nixlrun".into());
    let test = name.trim_start_matches("ranks::");

    Command::new(nixlrun)
        .args(["--timeout", "40s", "-np", &n.to_string()])
        .args(options)
        .arg(env::current_exe().expect("this program"))
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(VARIABLE, name)
        .output()
        .expect("nixlrun starts; NIXLRUN names it")
}

pub fn text(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// The other rank of two.
pub fn other(job: &Job) -> i32 {
    1 - job.rank()
}
