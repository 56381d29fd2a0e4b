// SPDX-License-Identifier: Apache-2.0
//! Find libnixlrun: in `NIXLRUN_LIB_DIR`, else by pkg-config, whose program is called so that no
//! other crate is needed.
use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=NIXLRUN_LIB_DIR");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_LIBDIR");
    println!("cargo:rustc-link-lib=dylib=nixlrun");
    if env::var_os("DOCS_RS").is_some() {
        return; /* texts need no library */
    }
    for folder in folders() {
        println!("cargo:rustc-link-search=native={folder}");
        println!("cargo:lib_dir={folder}");
    }
}

/// Where the library is; nowhere if the linker searches there anyway.
fn folders() -> Vec<String> {
    if let Ok(folder) = env::var("NIXLRUN_LIB_DIR") {
        return vec![folder];
    }
    let program = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into());

    match Command::new(&program).args(["--libs-only-L", "nixlrun"]).output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout)
            .split_whitespace()
            .filter_map(|word| word.strip_prefix("-L").map(String::from))
            .collect(),
        Ok(_) => fail(&format!("{program} finds no nixlrun")),
        Err(why) => fail(&format!("{program} does not start: {why}")),
    }
}

fn fail(what: &str) -> ! {
    eprintln!(
        "nixlrun-sys: {what}.\nInstall the library first (./quickstart, then make -C build \
         install), or set PKG_CONFIG_PATH to the folder of nixlrun.pc, or NIXLRUN_LIB_DIR to that \
         of libnixlrun.so."
    );
    std::process::exit(1);
}
