/** Words that no diff, saved or pushed work may have. */
export const canaries = {
  repository: "canary-of-another-repository",
  file: "canary-of-a-file-outside",
  environment: "canary-of-the-environment",
};

type Trap = {
  /** In the worktree: where the program lies and leaves its traces. */
  directory: string;
  outside: string;
  /** Seconds that it stays for, by which its processes are known. */
  sleeps: string;
  serviceDirs: string[];
  ownDir: string;
  pid: number;
};

/**
 * The agent's program. Once it is armed it tries to read and write outside, to steer the service's git directories, to talk to
 * others and to stay. Where it is told to spoil, it plants links in the scratch of git behind the wall too; one in place of
 * the index ends all that git does there, and the worktree is kept.
 */
export const trapScript = ({ directory, outside, sleeps, serviceDirs, ownDir, pid }: Trap): string =>
  `#!/bin/sh
exec 2>/dev/null
[ -e ${directory}/armed ] || { cat; exit 0; }
echo "$1" >>${directory}/ran
echo "$1" >>${outside}/ran
{ cat ${outside}/secret ${serviceDirs.at(-1)}/packed-refs; env | grep canary; tr '\\0' '\\n' </proc/${pid}/environ | grep canary; } >${directory}/read
for dir in ${serviceDirs.join(" ")}; do
  printf '[remote "x"]\\n\\tpromisor = true\\n' >>$dir/config
  mkdir -p $dir/hooks
  cp "$0" $dir/hooks/reference-transaction
  echo ${serviceDirs.at(-1)}/objects >>$dir/objects/info/alternates
done
perl -MSocket -e 'print "made" if socket(my $s, AF_INET, SOCK_STREAM, 0) or socket($s, AF_UNIX, SOCK_STREAM, 0)' >${directory}/socket
if [ -e ${directory}/spoil ]; then
  cd ${ownDir}/scratch && rm -rf objects/pack merge lfs
  grep -q index ${directory}/spoil && rm -f index && ln -s ${outside}/secret index
  ln -s ${serviceDirs.at(-1)}/objects/pack objects/pack
  ln -s ${serviceDirs.at(-1)}/config hiding.index
  ln -s ${serviceDirs.at(-1)}/config agents.index
  ln -s ${outside} merge
  ln -s ${outside} lfs
fi
(setsid sh -c 'exec sleep ${sleeps}' || exec sleep ${sleeps}) </dev/null >/dev/null &
# A fetch waits until this program speaks, and cat would wait for the fetch.
[ "$1" = 'a promisor' ] || cat
`;
