# Run by cpack on the files of all packages: strips binaries, compresses manual pages and
# changelogs, and lets all read the folders, with any umask.
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY})
file(GLOB_RECURSE names RELATIVE ${root} ${root}/*)
foreach(name IN LISTS names)
  if(IS_SYMLINK ${root}/${name})
    continue()
  elseif(name MATCHES "\\.a$")
    run(strip --strip-debug --enable-deterministic-archives --remove-section=.comment
        ${root}/${name})
  elseif(name MATCHES "\\.so\\.|/bin/")
    run(strip --strip-unneeded --remove-section=.comment --remove-section=.note ${root}/${name})
  elseif(name MATCHES "/man/|/changelog")
    run(gzip -9 --no-name --force ${root}/${name})
  endif()
endforeach()
run(find ${root} -type d -exec chmod 755 {} +)
