# Functions that boot this Debian's kernel in a guest that QEMU emulates, without root. A script that reads this file has set home, the
# folder for all of it, and limit, the seconds that a guest may take, and may have set kernel_package, the package of the kernel; its function
# fail ends it with a message.

# Installs missing programs, given as NAME:PACKAGE, where it may; fails naming those that are still missing.
need() {
    missing=
    for tool; do
        command -v "${tool%:*}" >/dev/null 2>&1 && continue
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
            { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${tool#*:}"; } >/dev/null 2>&1 || true
        fi
        command -v "${tool%:*}" >/dev/null 2>&1 || missing="$missing ${tool%:*} (Debian's package ${tool#*:})"
    done
    for tool in apt-get apt-cache dpkg-deb ldd; do
        command -v "$tool" >/dev/null 2>&1 || missing="$missing $tool"
    done
    [ -z "$missing" ] || fail "missing:$missing"
}

# Copies a program into a folder of the guest, whose root is $root, with the libraries that it needs.
install_program() { # FILE FOLDER
    mkdir -p "$2"
    cp "$1" "$2/"
    for library in $(ldd "$1" | grep -o '/[^ ]*'); do
        mkdir -p "$root${library%/*}"
        cp -L "$library" "$root$library"
    done
}

busybox() { ls "$home"/system/bin/busybox "$home"/system/usr/bin/busybox 2>/dev/null | head -n 1; }

# Makes the guest of kernel, busybox and mdadm of this Debian, unpacked and not installed, with further modules, unless it is there.
guest_system() { # MODULES...
    system=$home/system
    [ ! -e "$home/initrd" ] || return 0
    rm -rf "$home"
    mkdir -p "$home/packages" "$system"
    # The package of the newest kernel is named by one without a version.
    kernel_package=${kernel_package:-linux-image-amd64}
    kernel=$(apt-cache depends "$kernel_package" | sed -n 's/.*Depends: \(linux-image-[0-9].*-amd64\)$/\1/p' | head -n 1)
    [ -n "$kernel" ] || fail "apt knows no $kernel_package; apt-get update may help"
    (cd "$home/packages" && apt-get download -qq "$kernel" busybox-static mdadm 2>&1) ||
        fail "apt-get download $kernel busybox-static mdadm failed"
    for package in "$home"/packages/*.deb; do dpkg-deb -x "$package" "$system"; done
    modules=$(ls -d "$system"/lib/modules/* "$system"/usr/lib/modules/* 2>/dev/null | head -n 1)
    cp "$system"/boot/vmlinuz-* "$home/vmlinuz"
    root=$home/root
    mkdir -p "$root/bin" "$root/sbin" "$root/dev" "$root/proc" "$root/sys" "$root/run" "$root/tmp" "$root/etc"
    cp "$(busybox)" "$root/bin/busybox"
    for applet in $("$(busybox)" --list); do [ "$applet" = busybox ] || ln -s busybox "$root/bin/$applet"; done
    install_program "$(ls "$system/sbin/mdadm" "$system/usr/sbin/mdadm" 2>/dev/null | head -n 1)" "$root/sbin"
    # The modules that are asked for, and those that they need.
    to=$root/lib/modules/${modules##*/}
    mkdir -p "$to"
    for module in virtio_pci virtio_blk crc32c_generic md-mod raid0 raid1 raid456 "$@"; do echo "$module"; done >"$home/wanted"
    "$(busybox)" depmod -b "${modules%/lib/modules/*}" "${modules##*/}"
    while read -r module; do
        sed -n "s#^\(.*/\)\{0,1\}$module\.ko[^:]*:#& #p" "$modules/modules.dep" | tr ' ' '\n'
    done <"$home/wanted" | sed 's/:$//; /^$/d' | sort -u | while read -r file; do
        mkdir -p "$to/${file%/*}"
        cp "$modules/$file" "$to/$file"
        case $file in *.xz) "$(busybox)" unxz "$to/$file" ;; esac
    done
    "$(busybox)" depmod -b "$root" "${modules##*/}"
    (cd "$root" && find . | "$(busybox)" cpio -o -H newc 2>/dev/null) | gzip -1 >"$home/initrd.new"
    mv "$home/initrd.new" "$home/initrd"
}

# Boots the guest with the files of a folder beside its own; SEEN gets the lines that it prints after "= ". Options name its disks.
boot_guest() { # FILES SEEN OPTIONS...
    (cd "$1" && find . | "$(busybox)" cpio -o -H newc 2>/dev/null) | gzip -1 | cat "$home/initrd" - >"$1.initrd"
    initrd=$1.initrd seen=$2
    shift 2
    timeout "$limit" qemu-system-x86_64 -machine q35,accel=tcg -cpu max -smp 2 -m 768 -display none -no-reboot \
        -serial stdio -monitor none -nic none -kernel "$home/vmlinuz" -initrd "$initrd" \
        -append "console=ttyS0 quiet panic=-1 raid=noautodetect" "$@" </dev/null >"$seen.log" 2>&1 ||
        { tail -n 20 "$seen.log" >&2; fail "the guest failed; $seen.log"; }
    tr -d '\r' <"$seen.log" | sed -n 's/^= //p' >"$seen"
    grep -q '^guest done ' "$seen" || { tail -n 20 "$seen.log" >&2; fail "the guest did not do all of its jobs; $seen.log"; }
}
