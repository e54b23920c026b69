# SPDX-License-Identifier: Apache-2.0
# For which frameworks is built, and where those are. SPILLWAY_TORCH and SPILLWAY_TENSORFLOW are ON,
# OFF, or AUTO: for what the interpreter has in a version that is known. Sets for each that is built
# for its folder, version and minor version: torch_folder, torch_version, torch_minor, and likewise
# of tensorflow.

# scikit-build-core names the interpreter that pip runs in; a plain configure says it by itself.
function(spillway_interpreter variable stated)
  if(SKBUILD AND stated STREQUAL "python3" AND Python_EXECUTABLE)
    set(stated "${Python_EXECUTABLE}")
  endif()
  set(${variable} "${stated}" PARENT_SCOPE)
endfunction()

# Sets NAME_folder, NAME_version and NAME_minor by what `finder` prints, and `option` to ON or OFF.
# `minors`: the versions that there are adapters for.
# Frameworks are found, not imported: importing takes seconds and may start an accelerator's driver.
# The answer is not cached, so one that was replaced is seen at the next configure.
function(spillway_find_framework name option python finder minors)
  if(NOT ${option})
    return()
  endif()
  execute_process(COMMAND "${python}" "${finder}"
    OUTPUT_VARIABLE answer ERROR_VARIABLE trouble RESULT_VARIABLE status
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
  if(status EQUAL 0)
    list(GET answer 0 folder)
    list(GET answer 1 version)
    string(REGEX MATCH "^[0-9]+\\.[0-9]+" minor "${version}")
    if(NOT minor IN_LIST minors)
      list(JOIN minors ", " known)
      set(trouble
        "${name} ${version} in ${folder} is not supported: there are adapters for ${known}.")
    endif()
  else()
    set(trouble "No ${name} in ${python}: ${status} ${trouble}")
  endif()
  if(minor IN_LIST minors)
    set(${name}_folder "${folder}" PARENT_SCOPE)
    set(${name}_version "${version}" PARENT_SCOPE)
    set(${name}_minor "${minor}" PARENT_SCOPE)
    set(${option} ON PARENT_SCOPE)
  elseif(${option} STREQUAL "AUTO")
    message(STATUS "Spillway is built without ${name}. ${trouble}")
    set(${name}_trouble "${trouble}" PARENT_SCOPE)
    set(${option} OFF PARENT_SCOPE)
  else()
    # Indented text is what message() does not wrap, so that a sentence stays one line.
    message(FATAL_ERROR "\n  ${trouble}\n"
                        "  Name an interpreter that has another, or set ${option}=OFF.\n")
  endif()
endfunction()

set(SPILLWAY_TORCH_MINORS 2.11 2.12 2.13 2.14 2.15)
set(SPILLWAY_TENSORFLOW_MINORS 2.19 2.20 2.21)
spillway_interpreter(torch_python "${SPILLWAY_PYTHON}")
spillway_interpreter(tensorflow_python "${SPILLWAY_TENSORFLOW_PYTHON}")
spillway_find_framework(torch SPILLWAY_TORCH "${torch_python}"
  "${PROJECT_SOURCE_DIR}/adapters/torch/cmake/find_torch.py"
  "${SPILLWAY_TORCH_MINORS}")
spillway_find_framework(tensorflow SPILLWAY_TENSORFLOW "${tensorflow_python}"
  "${PROJECT_SOURCE_DIR}/adapters/tensorflow/cmake/find_tensorflow.py"
  "${SPILLWAY_TENSORFLOW_MINORS}")
if(SKBUILD AND NOT SPILLWAY_TORCH AND NOT SPILLWAY_TENSORFLOW)
  message(FATAL_ERROR "\n  Spillway builds against the torch or tensorflow of your environment: "
                      "use pip install --no-build-isolation .\n"
                      "  ${torch_trouble}\n  ${tensorflow_trouble}\n")
endif()
