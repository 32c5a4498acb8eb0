#!/usr/bin/env bash
# Runs one host: boot.sh NETNS BRIDGE LINK MAC ADDRESS BASE HOME CGROUPS NSPAWN-OPTION...
# Started as PID 1 of a process namespace, with mounts and a network of its own. It ends when its standard input does, which the
# fleet's process holds open: so the host, whatever runs in it, its disk's mount and its link never outlive that process.
set -euo pipefail
netns=$1 bridge=$2 link=$3 mac=$4 address=$5 base=$6 home=$7 cgroups=$8
shift 8
exec {owner}<&0 </dev/null

for cgroup in $cgroups; do echo 0 >"$cgroup/cgroup.procs"; done

ip link add eth0 address "$mac" type veth peer name "$link" netns "$netns"
nsenter --net="$netns" ip link set "$link" master "$bridge" up
ip link set lo up
ip address add "$address" dev eth0
ip link set eth0 up

mount -t tmpfs tmpfs /run # systemd-nspawn keeps books there
mount -t overlay -o "lowerdir=$base,upperdir=$home/upper,workdir=$home/work" overlay "$home/root"

until
  code=0
  systemd-nspawn --quiet --keep-unit --register=no --network-namespace-path=/proc/self/ns/net --link-journal=no \
    --resolv-conf=off --timezone=off --directory="$home/root" "$@" || code=$?
  [ "$code" -ne 133 ] # it asks for a reboot
do :; done &
cat <&"$owner" >/dev/null &
wait -n
