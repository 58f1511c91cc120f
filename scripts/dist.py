#!/usr/bin/env python3
"""Makes packages of the command, or installs it, from one built binary.

    scripts/dist.py install --binary FILE --prefix /usr/local --destdir DIR
    scripts/dist.py tar|deb|rpm --binary FILE --out target/dist
    scripts/dist.py symbols --binary FILE --most 2.17      fails if the binary needs a later glibc

A binary without the laboratory becomes the package carillon-transport, which conflicts with carillon. Packages contain the
manual pages, the completions, the systemd units, the licences of all dependencies, and share/carillon/view.html."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
CARGO = os.environ.get("CARGO", "cargo")
PACKAGING = os.path.join(ROOT, "packaging")
DESCRIPTION = "Reliable multicast: files and messages to many machines"
SHELLS = {
    "bash": "share/bash-completion/completions/carillon",
    "zsh": "share/zsh/site-functions/_carillon",
    "fish": "share/fish/vendor_completions.d/carillon.fish",
}
UNITS = ["carillon-recv", "carillon-relay", "carillon-daemon"]
TRANSPORT = ["--no-default-features", "--features", "transport"]
# Debian and RPM have other names for the same processor.
PROCESSORS = {"x86_64": "amd64", "aarch64": "arm64"}


def version() -> str:
    with open(os.path.join(ROOT, "Cargo.toml"), "rb") as file:
        return str(tomllib.load(file)["workspace"]["package"]["version"])


def has_laboratory(binary: str) -> bool:
    listed = subprocess.run([binary, "--help"], capture_output=True, text=True, check=True).stdout
    return bool(re.search(r"^  reproduce ", listed, re.MULTILINE))


def put(text: str, *path: str) -> None:
    target = os.path.join(*path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(target, 0o644)


def copy(source: str, target: str, mode: int = 0o644) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copyfile(source, target)
    os.chmod(target, mode)


def licences(laboratory: bool) -> str:
    """Licence texts of all crates in the binary, each text once."""
    features = [] if laboratory else TRANSPORT
    tree = [CARGO, "tree", "-p", "carillon-cli", "--edges", "normal", "--prefix", "none", "--format", "{p}", *features]
    listed = subprocess.run(tree, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    wanted = {tuple(line.split()[:2]) for line in listed.splitlines() if line.strip()}
    data = subprocess.run([CARGO, "metadata", "--format-version", "1"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    texts: dict[str, list[str]] = {}
    for package in json.loads(data)["packages"]:
        name = f"{package['name']} {package['version']} ({package['license']})"
        if package["source"] is None or (package["name"], f"v{package['version']}") not in wanted:
            continue
        folder = os.path.dirname(package["manifest_path"])
        found = [entry for entry in sorted(os.listdir(folder)) if re.match(r"(?i)licen[cs]e|copying|notice", entry)]
        found = [entry for entry in found if os.path.isfile(os.path.join(folder, entry))]
        for entry in found:
            with open(os.path.join(folder, entry), encoding="utf-8", errors="replace") as file:
                texts.setdefault(file.read().strip(), []).append(name)
        if not found:
            texts.setdefault(f"The crate has no file with its licence, which is {package['license']}.", []).append(name)
    return ("\n\n" + "=" * 80 + "\n").join("\n".join(sorted(set(names))) + "\n\n" + text for text, names in texts.items())


def install(binary: str, prefix: str, destdir: str, laboratory: bool) -> None:
    """Installs everything below DESTDIR/PREFIX."""
    base = os.path.join(destdir, prefix.lstrip("/"))
    copy(binary, os.path.join(base, "bin", "carillon"), 0o755)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([binary, "man", "--out", folder], check=True)
        for page in sorted(os.listdir(folder)):
            copy(os.path.join(folder, page), os.path.join(base, "share/man/man1", page))
    for shell, path in SHELLS.items():
        put(subprocess.run([binary, "completions", shell], capture_output=True, text=True, check=True).stdout, base, path)
    for kind in ["system", "user"]:
        for unit in UNITS:
            source = os.path.join(PACKAGING, "systemd", "" if kind == "system" else kind, f"{unit}.service")
            if os.path.exists(source):
                with open(source, encoding="utf-8") as file:
                    text = file.read().replace("/usr/bin/carillon", os.path.join(prefix, "bin/carillon"))
                put(text, base, f"lib/systemd/{kind}/{unit}.service")
    copy(os.path.join(PACKAGING, "sysusers/carillon.conf"), os.path.join(base, "lib/sysusers.d/carillon.conf"))
    copy(os.path.join(PACKAGING, "default"), os.path.join(base, "share/doc/carillon/default"))
    put(licences(laboratory), base, "share/doc/carillon/third-party-licences.txt")
    for name in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"]:
        copy(os.path.join(ROOT, name), os.path.join(base, "share/doc/carillon", name))
    if laboratory:
        built = os.path.join(ROOT, "web/dist/view.html")
        stored = os.path.join(ROOT, "crates/carillon-cli/view.html")
        copy(built if os.path.exists(built) else stored, os.path.join(base, "share/carillon/view.html"))


def tar(args: argparse.Namespace, name: str, laboratory: bool) -> str:
    """Makes a tarball for /usr/local."""
    with tempfile.TemporaryDirectory() as folder:
        top = f"{name}-{args.version}-{os.uname().machine}-linux"
        install(args.binary, "/usr/local", folder, laboratory)
        os.rename(os.path.join(folder, "usr/local"), os.path.join(folder, top))
        path = os.path.join(args.out, f"{top}.tar.gz")
        subprocess.run(["tar", "-C", folder, "--owner=0", "--group=0", "--sort=name", "-czf", path, top], check=True)
    return path


def script(name: str) -> str:
    with open(os.path.join(PACKAGING, "scripts", name), encoding="utf-8") as file:
        return file.read()


def needed_glibc(binary: str) -> str:
    """Latest version of glibc whose symbols a binary needs."""
    listed = subprocess.run(["objdump", "-T", binary], capture_output=True, text=True, check=True).stdout
    found = {tuple(map(int, number.split("."))) for number in re.findall(r"GLIBC_([0-9.]+)", listed)}
    if not found:
        raise SystemExit(f"{binary}: needs no symbol of glibc; is it a program for it?")
    return ".".join(map(str, max(found)))


def deb(args: argparse.Namespace, name: str, laboratory: bool) -> str:
    """Makes a Debian package with dpkg-deb."""
    other = "carillon-transport" if laboratory else "carillon"
    provides = "" if laboratory else "Provides: carillon\n"
    processor = PROCESSORS.get(os.uname().machine, os.uname().machine)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        install(args.binary, "/usr", folder, laboratory)
        copy(os.path.join(PACKAGING, "default"), os.path.join(folder, "etc/default/carillon"))
        control = (
            f"Package: {name}\nVersion: {args.version}\nArchitecture: {processor}\nMaintainer: The Carillon authors <carillon@localhost>\n"
            f"Section: net\nPriority: optional\nDepends: libc6 (>= {needed_glibc(args.binary)}), libgcc-s1 | libgcc1\n{provides}"
            f"Conflicts: {other}\nReplaces: {other}\nDescription: {DESCRIPTION}\n"
        )
        put(control, folder, "DEBIAN/control")
        put("/etc/default/carillon\n", folder, "DEBIAN/conffiles")
        for name_of_script in ["postinst", "prerm", "postrm"]:
            put(script(name_of_script), folder, "DEBIAN", name_of_script)
            os.chmod(os.path.join(folder, "DEBIAN", name_of_script), 0o755)
        path = os.path.join(args.out, f"{name}_{args.version}_{processor}.deb")
        subprocess.run(["dpkg-deb", "--root-owner-group", "--build", folder, path], stdout=subprocess.DEVNULL, check=True)
    return path


def rpm(args: argparse.Namespace, name: str, laboratory: bool) -> str:
    """Makes an RPM package with rpmbuild."""
    other = "carillon-transport" if laboratory else "carillon"
    with tempfile.TemporaryDirectory() as folder:
        tree = os.path.join(folder, "tree")
        install(args.binary, "/usr", tree, laboratory)
        copy(os.path.join(PACKAGING, "default"), os.path.join(tree, "etc/default/carillon"))
        files = [os.path.join(place, file)[len(tree) :] for place, _, names in os.walk(tree) for file in names]
        listed = ["%config(noreplace) " + file if file.startswith("/etc/") else file for file in sorted(files)]
        scripts = "".join(f"%{section}\n{script(name)}\n" for section, name in [("post", "postinst"), ("preun", "prerm"), ("postun", "postrm")])
        spec = (
            f"Name: {name}\nVersion: {args.version}\nRelease: 1\nSummary: {DESCRIPTION}\nLicense: MIT OR Apache-2.0\nConflicts: {other}\n"
            + ("" if laboratory else "Provides: carillon\n")
            + f"AutoReqProv: no\nRequires: libc.so.6(GLIBC_{needed_glibc(args.binary)})(64bit), libgcc_s.so.1()(64bit)\n"
            + f"%description\n{DESCRIPTION}.\n%install\ncp -a {tree}/. %{{buildroot}}\n{scripts}%files\n" + "\n".join(listed) + "\n"
        )
        put(spec, folder, "carillon.spec")
        options = {"_topdir": folder, "_rpmdir": args.out, "_build_name_fmt": "%{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm"}
        options |= {"__os_install_post": "%{nil}", "debug_package": "%{nil}", "_build_id_links": "none"}
        defined = [word for key, value in options.items() for word in ("--define", f"{key} {value}")]
        command = ["rpmbuild", "--quiet", "-bb", *defined, os.path.join(folder, "carillon.spec")]
        built = subprocess.run(command, capture_output=True, text=True)
        if built.returncode:
            raise SystemExit(f"rpmbuild failed:\n{built.stderr}")
    return os.path.join(args.out, f"{name}-{args.version}-1.{os.uname().machine}.rpm")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["install", "tar", "deb", "rpm", "symbols"])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--prefix", default="/usr/local")
    parser.add_argument("--destdir", default="/")
    parser.add_argument("--out", default="target/dist")
    parser.add_argument("--version", default=version(), help="version of the package, for tests of upgrades")
    parser.add_argument("--most", help="latest version of glibc that the binary may need")
    args = parser.parse_args()
    args.binary, args.out = os.path.abspath(args.binary), os.path.abspath(args.out)
    if args.action == "symbols":
        needed = needed_glibc(args.binary)
        print(f"{args.binary} needs glibc {needed}")
        is_late = args.most and tuple(map(int, needed.split("."))) > tuple(map(int, args.most.split(".")))
        return 1 if is_late else 0
    laboratory = has_laboratory(args.binary)
    if args.action == "install":
        install(args.binary, args.prefix, args.destdir, laboratory)
        return 0
    os.makedirs(args.out, exist_ok=True)
    name = "carillon" if laboratory else "carillon-transport"
    print({"tar": tar, "deb": deb, "rpm": rpm}[args.action](args, name, laboratory))
    return 0


if __name__ == "__main__":
    sys.exit(main())
