graph [
  node [
    id 0
    label "CA"
    Longitude 9.13
    Latitude 39.21
  ]
  node [
    id 1
    label "CA-1"
    Longitude 9.13
    Latitude 39.21
  ]
  node [
    id 2
    label "AQ-1"
    Longitude 13.4
    Latitude 42.35
  ]
  node [
    id 3
    label "SS"
    Longitude 8.56
    Latitude 40.73
  ]
  node [
    id 4
    label "PA-2"
    Longitude 13.36
    Latitude 38.12
  ]
  node [
    id 5
    label "Pv-1"
    Longitude 9.16
    Latitude 45.18
  ]
  node [
    id 6
    label "RM-1"
    Longitude 12.48
    Latitude 41.89
  ]
  node [
    id 7
    label "PG"
    Longitude 12.38
    Latitude 43.1
  ]
  node [
    id 8
    label "CZ"
    Longitude 16.6
    Latitude 38.89
  ]
  node [
    id 9
    label "BO"
    Longitude 11.34
    Latitude 44.49
  ]
  node [
    id 10
    label "MI-3"
    Longitude 9.19
    Latitude 45.46
  ]
  node [
    id 11
    label "TS-1"
    Longitude 13.78
    Latitude 45.65
  ]
  node [
    id 12
    label "NA"
    Longitude 14.25
    Latitude 40.83
  ]
  node [
    id 13
    label "ME"
    Longitude 15.55
    Latitude 38.19
  ]
  node [
    id 14
    label "CS"
    Longitude 16.25
    Latitude 39.31
  ]
  node [
    id 15
    label "CT"
    Longitude 15.09
    Latitude 37.5
  ]
  node [
    id 16
    label "PA"
    Longitude 13.36
    Latitude 38.12
  ]
  node [
    id 17
    label "BO-3"
    Longitude 11.34
    Latitude 44.49
  ]
  node [
    id 18
    label "FUC"
    Longitude 13.44
    Latitude 42.04
  ]
  node [
    id 19
    label "FI"
    Longitude 11.25
    Latitude 43.77
  ]
  node [
    id 20
    label "Fi"
    Longitude 11.25
    Latitude 43.77
  ]
  node [
    id 21
    label "PD-2"
    Longitude 11.88
    Latitude 45.42
  ]
  node [
    id 22
    label "BR"
    Longitude 17.94
    Latitude 40.63
  ]
  node [
    id 23
    label "VE"
    Longitude 12.33
    Latitude 45.44
  ]
  node [
    id 24
    label "PD"
    Longitude 11.88
    Latitude 45.42
  ]
  node [
    id 25
    label "MI-1"
    Longitude 9.19
    Latitude 45.46
  ]
  node [
    id 26
    label "TN"
    Longitude 11.12
    Latitude 46.07
  ]
  node [
    id 27
    label "MI-2"
    Longitude 9.19
    Latitude 45.46
  ]
  node [
    id 28
    label "MI-4"
    Longitude 9.19
    Latitude 45.46
  ]
  node [
    id 29
    label "GE"
    Longitude 8.93
    Latitude 44.41
  ]
  node [
    id 30
    label "TO"
    Longitude 7.69
    Latitude 45.07
  ]
  node [
    id 31
    label "SA"
    Longitude 14.77
    Latitude 40.68
  ]
  node [
    id 32
    label "PZ"
    Longitude 15.81
    Latitude 40.64
  ]
  node [
    id 33
    label "CB"
    Longitude 14.67
    Latitude 41.56
  ]
  node [
    id 34
    label "FRA"
    Longitude 12.67
    Latitude 41.82
  ]
  node [
    id 35
    label "AQ"
    Longitude 13.4
    Latitude 42.35
  ]
  node [
    id 36
    label "AN"
    Longitude 13.51
    Latitude 43.6
  ]
  node [
    id 37
    label "MT"
    Longitude 16.6
    Latitude 40.67
  ]
  node [
    id 38
    label "LE"
    Longitude 18.17
    Latitude 40.36
  ]
  node [
    id 39
    label "BA"
    Longitude 16.85
    Latitude 41.12
  ]
  node [
    id 40
    label "FG"
    Longitude 15.55
    Latitude 41.46
  ]
  node [
    id 41
    label "BS"
    Longitude 10.23
    Latitude 45.52
  ]
  node [
    id 42
    label "RM-2"
    Longitude 12.48
    Latitude 41.89
  ]
  node [
    id 43
    label "CO"
    Longitude 9.19
    Latitude 45.46
  ]
  node [
    id 44
    label "Fe"
    Longitude 11.62
    Latitude 44.83
  ]
  node [
    id 45
    label "Pv"
    Longitude 9.16
    Latitude 45.18
  ]
  node [
    id 46
    label "PI"
    Longitude 10.4
    Latitude 43.72
  ]
  node [
    id 47
    label "Ur"
    Longitude 12.64
    Latitude 43.73
  ]
  edge [
    source 0
    target 1
  ]
  edge [
    source 1
    target 6
  ]
  edge [
    source 1
    target 3
  ]
  edge [
    source 1
    target 42
  ]
  edge [
    source 2
    target 35
  ]
  edge [
    source 2
    target 42
  ]
  edge [
    source 4
    target 16
  ]
  edge [
    source 5
    target 45
  ]
  edge [
    source 6
    target 42
  ]
  edge [
    source 6
    target 34
  ]
  edge [
    source 6
    target 35
  ]
  edge [
    source 6
    target 15
  ]
  edge [
    source 7
    target 42
  ]
  edge [
    source 8
    target 14
  ]
  edge [
    source 9
    target 24
  ]
  edge [
    source 9
    target 25
  ]
  edge [
    source 9
    target 36
  ]
  edge [
    source 9
    target 39
  ]
  edge [
    source 9
    target 42
  ]
  edge [
    source 9
    target 44
  ]
  edge [
    source 9
    target 17
  ]
  edge [
    source 9
    target 19
  ]
  edge [
    source 10
    target 25
  ]
  edge [
    source 10
    target 41
  ]
  edge [
    source 10
    target 27
  ]
  edge [
    source 11
    target 43
  ]
  edge [
    source 11
    target 24
  ]
  edge [
    source 12
    target 31
  ]
  edge [
    source 12
    target 39
  ]
  edge [
    source 12
    target 33
  ]
  edge [
    source 12
    target 15
  ]
  edge [
    source 12
    target 42
  ]
  edge [
    source 13
    target 15
  ]
  edge [
    source 14
    target 15
  ]
  edge [
    source 15
    target 16
  ]
  edge [
    source 18
    target 42
  ]
  edge [
    source 19
    target 46
  ]
  edge [
    source 19
    target 20
  ]
  edge [
    source 21
    target 23
  ]
  edge [
    source 21
    target 24
  ]
  edge [
    source 22
    target 39
  ]
  edge [
    source 24
    target 25
  ]
  edge [
    source 24
    target 26
  ]
  edge [
    source 25
    target 27
  ]
  edge [
    source 25
    target 43
  ]
  edge [
    source 26
    target 27
  ]
  edge [
    source 27
    target 28
  ]
  edge [
    source 27
    target 29
  ]
  edge [
    source 27
    target 30
  ]
  edge [
    source 27
    target 42
  ]
  edge [
    source 27
    target 43
  ]
  edge [
    source 27
    target 45
  ]
  edge [
    source 28
    target 43
  ]
  edge [
    source 29
    target 46
  ]
  edge [
    source 30
    target 46
  ]
  edge [
    source 32
    target 39
  ]
  edge [
    source 34
    target 42
  ]
  edge [
    source 36
    target 47
  ]
  edge [
    source 37
    target 39
  ]
  edge [
    source 38
    target 39
  ]
  edge [
    source 39
    target 40
  ]
  edge [
    source 42
    target 46
  ]
]
