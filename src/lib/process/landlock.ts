import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { type CallName, callNumbers, systemCallFilter } from "./seccomp.ts";

const perl = "/usr/bin/perl";

/** The version of Landlock here. @throws Error with a sentence for the operator, when there is none */
export const landlockVersion = async (): Promise<number> => {
  if (callNumbersHere === undefined)
    throw new Error(`Landlock is not supported on ${process.arch}: it is on x64 and arm64`);
  const asked = promisify(execFile)(perl, ["-e", "print syscall(444, 0, 0, 1)"]);
  const { stdout } = await asked.catch(() => {
    throw new Error("Landlock needs perl: apt-get install perl-base");
  });
  if (Number(stdout) >= 1) return Number(stdout);
  throw new Error(
    "the kernel has no Landlock: use Linux 5.13 or newer, with landlock in the list of its boot option lsm=",
  );
};

/** ssh refuses such a file whose owner is neither root nor itself, and in a user namespace root is somebody else. */
export const sshDropIns = "/etc/ssh/ssh_config.d";

const numbers: Record<string, Record<"PRCTL" | "UNSHARE" | "MOUNT", number>> = {
  x64: { PRCTL: 157, UNSHARE: 272, MOUNT: 165 },
  arm64: { PRCTL: 167, UNSHARE: 97, MOUNT: 40 },
};
const callNumbersHere = numbers[process.arch];

/** What a run may use. Absolute paths; those that do not exist are left out. */
export type Fence = {
  readable: readonly string[];
  writable: readonly string[];
  /** Directories whose names, and the names in all below them, it may list. Absent: none. */
  listed?: readonly string[];
  /** Bytes of a /dev/shm of its own, with terminals of its own. Null or absent: it has no mounts of its own. */
  sharedBytes?: number | null;
  /** TCP ports to which it may connect, on any host. */
  ports: readonly number[];
  /** Those on which it may listen, too. Absent: none. */
  ownPorts?: readonly number[];
  /** It makes no socket and stays in its process group. */
  alone?: boolean;
};

/**
 * Restricts itself and becomes the program that follows. In perl, which every Debian has, because Node cannot make these
 * calls: 444 to 446 are Landlock's on all architectures. Arguments: the filter of system calls; rules `m BYTES` for mounts
 * of its own, `r PATH`, `w PATH`, `d PATH` for names alone, `p PORT`, and `l PORT` where it may listen, too; `--`; the program
 * with its own. Mounts need a namespace, and for that whoever is not root a user namespace with the same user. Root's
 * capabilities go as well: with them it could read the environment of other processes. Exits 126 and says why when the
 * kernel refuses.
 */
const script = `
use strict;
sub refuse { print STDERR "landlock: $_[0]: $!\\n"; exit 126 }
my $filter = pack('H*', shift);
my @rules; while (@ARGV and (my $rule = shift) ne '--') { push @rules, $rule }
sub put { open(my $file, '>', $_[0]) or refuse($_[0]); syswrite($file, $_[1]) or refuse($_[0]) }
sub mount { my @call = @_; syscall(MOUNT, @call) == 0 or refuse("mount $call[1]") }
sub separate {
  my ($user, $group) = ($>, $) + 0);
  my $isOwner = syscall(UNSHARE, 0x20000) == 0;
  unless ($isOwner) {
    syscall(UNSHARE, 0x10020000) == 0 or refuse('no mounts');
    put('/proc/self/setgroups', 'deny'); put('/proc/self/uid_map', "$user $user 1"); put('/proc/self/gid_map', "$group $group 1");
  }
  mount('none', '/', 0, 0x84000, 0);
  mount('svc', '/dev/shm', 'tmpfs', 6, "size=$_[0],mode=1777");
  mount('svc', '/dev/pts', 'devpts', 10, 'newinstance,ptmxmode=0666');
  mount('svc', 'DROP_INS', 'tmpfs', 7, 'size=4k') if -d 'DROP_INS' and not $isOwner;
}
my $version = syscall(444, 0, 0, 1);
refuse('not available') if $version < 1;
my $files = $version >= 5 ? 0xffff : $version >= 3 ? 0x7fff : $version >= 2 ? 0x3fff : 0x1fff;
my $network = $version < 4 ? 0 : 3;
my $size = $version >= 6 ? 24 : $version >= 4 ? 16 : 8;
my $set = syscall(444, pack('QQQ', $files, $network, $version >= 6 ? 3 : 0), $size, 0);
refuse('no rules') if $set < 0;
for (@rules) {
  my ($kind, $value) = /^(.) (.*)$/s or next;
  if ($kind eq 'p' or $kind eq 'l') {
    next unless $network;
    syscall(445, $set, 2, pack('QQ', $kind eq 'l' ? 3 : 2, $value), 0) == 0 or refuse($value);
    next;
  }
  if ($kind eq 'm') { separate($value); next }
  sysopen(my $place, $value, 010000000) or next;
  my $allowed = $kind eq 'w' ? $files : $kind eq 'd' ? 8 : 13;
  $allowed &= 0xc007 unless -d $value;
  syscall(445, $set, 1, pack('Ql', $allowed & $files, fileno $place), 0) == 0 or refuse($value);
}
syscall(PRCTL, 24, $_, 0, 0, 0) for 0 .. 63;
syscall(PRCTL, 38, 1, 0, 0, 0) == 0 or refuse('no_new_privs');
syscall(PRCTL, 22, 2, pack('Sx6P', length($filter) / 8, $filter), 0, 0) == 0 or refuse('no filter');
syscall(446, $set, 0) == 0 or refuse('not enforced');
exec { $ARGV[0] } @ARGV or refuse($ARGV[0]);
`;

/** Command and arguments before the program. */
export const landlockPrefix = ({
  readable,
  writable,
  listed = [],
  sharedBytes = null,
  ports,
  ownPorts = [],
  alone = false,
}: Fence): string[] => [
  perl,
  "-e",
  script
    .replaceAll(/PRCTL|UNSHARE|MOUNT/g, (name) => String(callNumbersHere?.[name as "PRCTL"]))
    .replaceAll("DROP_INS", sshDropIns),
  systemCallFilter({ sockets: alone ? "none" : "tcp" }).toString("hex"),
  ...(sharedBytes === null ? [] : [`m ${sharedBytes}`]),
  ...listed.map((path) => `d ${path}`),
  ...readable.map((path) => `r ${path}`),
  ...writable.map((path) => `w ${path}`),
  ...ports.map((port) => `p ${port}`),
  ...ownPorts.map((port) => `l ${port}`),
  "--",
];

/** Arguments that show whether a call passes, and change nothing if it does. `$other` is the parent, which is outside. */
const trials: readonly [what: string, call: CallName, args: string][] = [
  ["TCP by fast open", "sendto", "fileno $socket, $text, 1, $flags, $at, length $at"],
  ["TCP by fast open", "sendmsg", "fileno $socket, $message, $flags"],
  ["TCP by fast open", "sendmmsg", "fileno $socket, $messages, 1, $flags"],
  ["limits of other processes", "prlimit64", "$other, 7, 0, 0"],
  ["processors of other processes", "sched_setaffinity", "$other, 0, 0"],
  ["scheduling of other processes", "sched_setscheduler", "$other, -1, 0"],
  ["scheduling of other processes", "sched_setparam", "$other, 0"],
  ["scheduling of other processes", "sched_setattr", "$other, 0, 0"],
  ["priority of other processes", "setpriority", "0, $other, getpriority 0, $other"],
  ["priority of other processes", "ioprio_set", "1, $other, 7 << 13"],
];

/** A program that prints, one a line, what passes of that which a run under Landlock may not do. */
export const landlockTrial = (): [command: string, ...args: string[]] => [
  perl,
  "-e",
  `use strict; use Socket;
my ($other, $flags, $text, $at) = (getppid, 0x20000040, 'x', pack_sockaddr_in(1, INADDR_LOOPBACK));
my $part = pack 'PQ', $text, 1;
my $message = pack 'PLx4PQQQLx4', $at, length $at, $part, 1, 0, 0, 0;
my $messages = $message . pack 'Q', 0;
socket my $socket, AF_INET, SOCK_STREAM, 0 or die "no socket: $!\n";
sub try { my ($what, @call) = @_; $! = 0; syscall(shift @call, @call); print "$what\n" unless $!{EPERM} or $!{EACCES} }
${trials.map(([what, call, args]) => `try('${what} (${call})', ${callNumbers[call][process.arch === "arm64" ? 2 : 0]}, ${args});`).join("\n")}`,
];
