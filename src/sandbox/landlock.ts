/** What a run may use where namespaces are refused. Absolute paths; those that do not exist are left out. */
export type Fence = {
  readable: readonly string[];
  writable: readonly string[];
  /** TCP ports to which it may connect, on any host. */
  ports: readonly number[];
};

/**
 * Restricts itself by Landlock and becomes the program that follows. In perl, which every Debian has, because Node cannot
 * make these calls: 444 to 446 are Landlock's on all architectures; prctl is 157, on arm64 167. Arguments: rules `r PATH`,
 * `w PATH`, `p PORT`, then `--` and the program with its own. Root's capabilities go as well: with them it could read the
 * environment of other processes. Exits 126 and says why when the kernel refuses.
 */
const script = `
use strict;
sub refuse { print STDERR "landlock: $_[0]: $!\\n"; exit 126 }
my @rules; while (@ARGV and (my $rule = shift) ne '--') { push @rules, $rule }
my $version = syscall(444, 0, 0, 1);
refuse('not available') if $version < 1;
my $files = $version >= 5 ? 0xffff : $version >= 3 ? 0x7fff : $version >= 2 ? 0x3fff : 0x1fff;
my $network = $version >= 4 ? 3 : 0;
my $size = $version >= 6 ? 24 : $version >= 4 ? 16 : 8;
my $set = syscall(444, pack('QQQ', $files, $network, $version >= 6 ? 3 : 0), $size, 0);
refuse('no rules') if $set < 0;
for (@rules) {
  my ($kind, $value) = /^(.) (.*)$/s;
  if ($kind eq 'p') {
    next unless $network;
    syscall(445, $set, 2, pack('QQ', 2, $value), 0) == 0 or refuse($value);
    next;
  }
  sysopen(my $place, $value, 010000000) or next;
  my $allowed = $kind eq 'w' ? $files : 13;
  $allowed &= 0xc007 unless -d $value;
  syscall(445, $set, 1, pack('Ql', $allowed & $files, fileno $place), 0) == 0 or refuse($value);
}
syscall($ENV{SVC_PRCTL}, 24, $_, 0, 0, 0) for 0 .. 63;
syscall($ENV{SVC_PRCTL}, 38, 1, 0, 0, 0) == 0 or refuse('no_new_privs');
syscall(446, $set, 0) == 0 or refuse('not enforced');
delete $ENV{SVC_PRCTL};
exec { $ARGV[0] } @ARGV or refuse($ARGV[0]);
`;

/** Command and arguments before the program, and a variable for it. Null: this architecture is not known. */
export const landlockPrefix = ({
  readable,
  writable,
  ports,
}: Fence): { prefix: [program: string, ...args: string[]]; env: Record<string, string> } | null => {
  const prctl = { x64: "157", arm64: "167" }[process.arch as string];
  if (prctl === undefined) return null;
  const rules = [
    ...readable.map((path) => `r ${path}`),
    ...writable.map((path) => `w ${path}`),
    ...ports.map((port) => `p ${port}`),
  ];
  return { prefix: ["/usr/bin/perl", "-e", script, ...rules, "--"], env: { SVC_PRCTL: prctl } };
};
